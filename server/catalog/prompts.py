"""The prompts: what a person can ask an agent to do with the vault, in a few exact words.

What a prompt shows of the vault goes along as resources, apart from what it says, and bounded: the
text of a note is data, and an agent has to be able to tell it from the words of the prompt.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from server.catalog.resources import uri_of
from server.errors import InvalidRequest, VaultError
from server.markdown.slugs import slugify
from server.models import Caller
from server.service import Service
from server.service.catching_up import Catchup
from server.service.completing import What
from server.service.room import short
from server.vault.paths import parse_path

_NOTE_CHARS = 12_000
_EXCERPT_CHARS = 3_000
_EXCERPTS = 3
_LONGEST = 500


@dataclass(frozen=True, slots=True)
class Argument:
    """What a person may fill in."""

    name: str
    description: str
    required: bool = False
    completes: What | None = None


@dataclass(frozen=True, slots=True)
class Shown:
    """A part of a note that goes along."""

    uri: str
    text: str
    mime: str = "text/markdown"


Part = str | Shown
Arguments = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt; `needs` are the tools that it tells the agent to use."""

    name: str
    title: str
    description: str
    arguments: tuple[Argument, ...]
    needs: tuple[str, ...]
    make: Callable[[Service, Caller, Arguments], Awaitable[Sequence[Part]]]


def checked(prompt: Prompt, given: Mapping[str, str] | None) -> dict[str, str]:
    """The arguments, without empty ones. Raises `InvalidRequest`."""
    known = {argument.name: argument for argument in prompt.arguments}
    values = {name: value.strip() for name, value in (given or {}).items() if value.strip()}
    unknown = sorted(set(given or ()) - set(known))
    missing = [name for name, one in known.items() if one.required and name not in values]
    long = [name for name, value in values.items() if len(value) > _LONGEST]
    for names, problem in (
        (unknown, "is not an argument"),
        (missing, "is missing"),
        (long, f"is longer than {_LONGEST} characters"),
    ):
        if names:
            raise InvalidRequest(
                f"{prompt.name}: {names[0][:80]} {problem}.",
                f"Arguments of {prompt.name}: {', '.join(known)}.",
            )
    return values


async def _devlog(service: Service, caller: Caller, given: Arguments) -> Sequence[Part]:
    topic, project = given["topic"], given.get("project")
    scope = f", project={project!r}" if project else ""
    asked = (
        f"Write down in the devlog what we did in this conversation. Call devlog_append once with "
        f"topic={topic!r}{scope} and one entry for each thing worth finding again: impl (what was "
        "built), problem (what went wrong; add its resolution if there is one), insight (what we "
        "learned), verify (what was checked, and how). One sentence each, concrete names, no "
        "secrets. Leave out what the devlog already has."
    )
    if about := given.get("about"):
        asked += f" Only about: {about}"
    path = await _found(service, caller, ["devlog"], {"topic": topic})
    if path is None:
        path = await _found(service, caller, ["devlog"], {"topic": slugify(topic)})
    return [asked, *await _shown(service, caller, path, _EXCERPT_CHARS, tail=True)]


async def _adr(service: Service, caller: Caller, given: Arguments) -> Sequence[Part]:
    title, project, replaced = given["title"], given.get("project"), given.get("supersedes")
    scope = f", project={project!r}" if project else ""
    asked = (
        f"Record the decision {title!r}. First look with adr_list whether there is one about it "
        "already. Then call adr_create with title, context (the forces, not the history), options "
        "(each with what speaks against it), decision (one sentence that begins with 'We'), "
        f"consequences (the bad ones too){scope}; use status='proposed' unless the user has "
        "decided. Take facts from this conversation and ask for what is missing."
    )
    parts: list[Part] = [asked]
    if replaced:
        number = "".join(char for char in replaced if char.isdecimal())[:6]
        parts[0] = f"{asked} It supersedes {replaced}: call adr_set_status for that one afterwards."
        path = await _found(service, caller, ["adr"], {"adr": int(number or 0)})
        parts += await _shown(service, caller, path, _NOTE_CHARS)
    return parts


async def _catchup(service: Service, caller: Caller, given: Arguments) -> Sequence[Part]:
    news = await service.catching_up.since(
        caller,
        given.get("since"),
        project=given.get("project"),
        tag=given.get("tag"),
        visit=True,
    )
    asked = (
        f"Bring me up to date with the vault since {news.since}. In at most ten lines: what changed "
        "and why it matters, which problems are open, which decisions wait for an answer. Read what "
        "you need with note_read; name notes by their paths. End with what I should look at first."
    )
    return [asked, _listed(news), *await _proposed(service, caller, news)]


async def _summarise(service: Service, caller: Caller, given: Arguments) -> Sequence[Part]:
    path = parse_path(given["note"])
    whole = await _shown(service, caller, path, 4 * _NOTE_CHARS)
    if not whole:
        raise InvalidRequest(f"There is no note {path!r} to summarise.", "Complete its path.")
    asked = (
        f"Summarise the meeting in {path!r}. With note_patch put a section '## Summary' at the top "
        "of its text: a paragraph, then lists of decisions, of actions as '- [ ] who: what (by "
        "when)', and of open questions; write only what the note says. Link people and projects "
        "that have notes as [[name]] (search_notes tells). Then name the decisions that deserve an "
        "ADR, and ask before you make one."
    )
    return [asked, *whole]


async def _review(service: Service, caller: Caller, given: Arguments) -> Sequence[Part]:
    news = await service.catching_up.since(
        caller, given.get("since", "1w"), project=given.get("project"), tag=given.get("tag")
    )
    asked = (
        f"Write a review of the time since {news.since}: what was finished, what is under way, what "
        "is stuck and what it waits for, what was learned, and the three most useful next steps. "
        "Read the notes that matter with note_read and context_pack; claim nothing they don't say. "
        "Show it to me first; when I agree, save it with note_upsert as 'reviews/YYYY-Www.md', with "
        "links to the notes that it names."
    )
    return [asked, _listed(news), *await _proposed(service, caller, news)]


def _listed(news: Catchup) -> Shown:
    """What happened, as a list that is data like any note."""
    lines = [f"# Since {news.since}", ""]
    if news.is_first:
        lines += ["(No earlier visit is known: this is the last week.)", ""]
    lines.append(f"## Changes ({len(news.changes)} of {news.total_changes})")
    for one, title in news.changes:
        was = f" (was {one.old_path})" if one.old_path else ""
        lines.append(f"- {one.change} {one.path}{was}: {short(title or '')}".rstrip(": "))
    lines += ["", f"## Open problems ({len(news.problems)} of {news.total_problems})"]
    lines += [f"- {one.date} {one.path}: {one.text}" for one in news.problems]
    lines += ["", f"## Proposed decisions ({len(news.proposed)} of {news.total_proposed})"]
    lines += [f"- {row.path}: {short(row.title or '')}" for row in news.proposed]
    return Shown(uri_of("folder", ""), "\n".join(lines) + "\n")


async def _proposed(service: Service, caller: Caller, news: Catchup) -> list[Part]:
    parts: list[Part] = []
    for row in news.proposed[:_EXCERPTS]:
        parts += await _shown(service, caller, row.path, _EXCERPT_CHARS)
    return parts


async def _found(
    service: Service, caller: Caller, tags: Sequence[str], properties: Mapping[str, str | int]
) -> str | None:
    page = await service.searching.search(
        caller, tags=tags, properties=properties, sort="modified_desc", limit=1
    )
    return page.items[0].path if page.items else None


async def _shown(
    service: Service, caller: Caller, path: str | None, most: int, *, tail: bool = False
) -> list[Part]:
    """A note to go along; nothing when there is none that the caller may read."""
    if path is None:
        return []
    try:
        note = await service.resources.file(caller, parse_path(path))
    except VaultError:
        return []
    text = note.text or ""
    if len(text) > most:
        left = f"[{len(text) - most} characters left out: note_read has them]"
        text = f"{left}\n{text[-most:]}" if tail else f"{text[:most]}\n{left}\n"
    return [Shown(uri_of("note", note.path), text, note.type)]


_SINCE = Argument("since", "A date, or an age like 3d or 1w.", completes="since")
_PROJECT = Argument("project", "Only what belongs to this project.", completes="project")
_TAG = Argument("tag", "Only notes with this tag.", completes="tag")

PROMPTS: tuple[Prompt, ...] = (
    Prompt(
        "devlog",
        "Write the devlog",
        "Write down what this conversation did, as entries of a devlog.",
        (
            Argument("topic", "The devlog's topic.", required=True, completes="topic"),
            Argument("project", "The project it belongs to.", completes="project"),
            Argument("about", "What to write about, if not everything."),
        ),
        ("devlog_append",),
        _devlog,
    ),
    Prompt(
        "adr",
        "Record a decision",
        "Make an architecture decision record of what was decided here.",
        (
            Argument("title", "The decision in a few words.", required=True),
            Argument("project", "The project it belongs to.", completes="project"),
            Argument("supersedes", "The ADR that it replaces.", completes="adr"),
        ),
        ("adr_create", "adr_list", "adr_set_status"),
        _adr,
    ),
    Prompt(
        "catchup",
        "Catch up",
        "What changed, which problems are open and which decisions wait, since your last visit.",
        (_SINCE, _PROJECT, _TAG),
        ("note_read",),
        _catchup,
    ),
    Prompt(
        "summarise-meeting",
        "Summarise a meeting",
        "Add a summary with decisions and actions to a meeting's note.",
        (Argument("note", "The path of the meeting's note.", required=True, completes="note"),),
        ("note_patch", "search_notes"),
        _summarise,
    ),
    Prompt(
        "weekly-review",
        "Weekly review",
        "Look back at a week of work from what the vault says about it.",
        (_SINCE, _PROJECT, _TAG),
        ("note_read", "context_pack", "note_upsert"),
        _review,
    ),
)
