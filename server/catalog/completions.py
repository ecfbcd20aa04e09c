"""Which arguments can be completed, and with what."""

from server.catalog.prompts import PROMPTS
from server.catalog.resources import TEMPLATES
from server.service.completing import What


def of_template(uri: str, argument: str) -> What | None:
    """What completes an argument of a resource template; None for an unknown one."""
    found = next((template for template in TEMPLATES if template.uri == uri), None)
    return found.kind if found is not None and argument == "path" else None


def of_prompt(name: str, argument: str) -> What | None:
    """What completes an argument of a prompt; None when nothing does."""
    found = next((prompt for prompt in PROMPTS if prompt.name == name), None)
    arguments = found.arguments if found is not None else ()
    return next((one.completes for one in arguments if one.name == argument), None)
