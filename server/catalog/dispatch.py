"""The way from a door to an operation: look up, validate, run, count, log. Protocol-free."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from server.catalog.operation import Input, Operation, Output
from server.errors import InternalError, InvalidRequest, NotFound, VaultError
from server.models import Caller
from server.telemetry import LOG, Telemetry


class Dispatcher:
    """Runs operations by name; every door holds the same one."""

    def __init__(
        self,
        operations: Sequence[Operation],
        service: Any,
        telemetry: Telemetry,
        listed: Sequence[Operation] | None = None,
    ) -> None:
        """`listed` are the operations that agents are told of; all can be called."""
        self.operations: Mapping[str, Operation] = {op.name: op for op in operations}
        self.listed = tuple(operations if listed is None else listed)
        self._service = service
        self._telemetry = telemetry

    async def call(self, name: str, arguments: Mapping[str, Any], caller: Caller) -> Output:
        """Run one operation. Raises only `VaultError`; anything else is logged with an id."""
        op = self.operations.get(name)
        if op is None:
            raise NotFound(
                f"There is no tool named {name[:80]!r}.", "List the tools to see what there is."
            )
        subject = arguments.get(op.subject) if op.subject else None
        with self._telemetry.call(
            op.name, caller.name, caller.door, str(subject)[:200] if subject is not None else None
        ):
            try:
                return await op.run(self._service, caller, _validated(op, arguments))
            except VaultError:
                raise
            except Exception as error:
                raise unexpected(error) from error


def unexpected(error: Exception) -> InternalError:
    """Log an unknown exception under an id; only the id goes out."""
    error_id = uuid.uuid4().hex[:12]
    LOG.error("unexpected error %s", error_id, exc_info=error)
    return InternalError(
        "Something went wrong inside the server.",
        f"Try again; if it stays, look for {error_id} in the server's log.",
        id=error_id,
    )


def _validated(op: Operation, arguments: Mapping[str, Any]) -> Input:
    try:
        return op.input.model_validate(dict(arguments))
    except ValidationError as error:
        raise InvalidRequest(
            f"{op.name}: " + "; ".join(_problems(error)),
            f"Arguments of {op.name}: {', '.join(_arguments(op))}.",
        ) from None


def _arguments(op: Operation) -> list[str]:
    return [field.alias or name for name, field in op.input.model_fields.items()]


def _problems(error: ValidationError) -> list[str]:
    problems = []
    for item in error.errors(include_url=False, include_input=False)[:5]:
        where = ".".join(str(part)[:60] for part in item["loc"])
        what = "is not an argument" if item["type"] == "extra_forbidden" else item["msg"]
        problems.append(f"{where} {what}" if where else what)
    return problems
