"""The way from a door to an operation: look up, validate, run, count, log. Protocol-free."""

import asyncio
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from server.access.limits import Limiter, content_bytes
from server.access.policy import Limits
from server.audit.audit import Audit
from server.audit.calls import CallRecord
from server.catalog.operation import Input, Operation, Output
from server.errors import InternalError, InvalidRequest, NotFound, TooLarge, VaultError
from server.models import Caller
from server.telemetry import LOG, CallEnd, Telemetry

T = TypeVar("T")


class Dispatcher:
    """Runs operations by name; every door holds the same one."""

    def __init__(
        self,
        operations: Sequence[Operation],
        service: Any,
        telemetry: Telemetry,
        listed: Sequence[Operation] | None = None,
        limiter: Limiter | None = None,
        audit: Audit | None = None,
        toolsets: Callable[[Caller], frozenset[str] | None] = lambda _: None,
    ) -> None:
        """`listed` are the operations that agents are told of; all can be called."""
        self.operations: Mapping[str, Operation] = {op.name: op for op in operations}
        self.listed = tuple(operations if listed is None else listed)
        self._service = service
        self._telemetry = telemetry
        self.limiter = limiter or Limiter(Limits())
        self._audit = audit
        self._toolsets = toolsets
        self._untold: deque[Callable[[], None]] = deque()
        """What metrics, log and audit have yet to say of calls that are over, in their order."""

    def offers(self, name: str, caller: Caller) -> bool:
        """Whether there is such an operation, and among those that the caller has."""
        op, mine = self.operations.get(name), self._toolsets(caller)
        return op is not None and (mine is None or op.toolset in mine)

    def listed_for(self, caller: Caller) -> tuple[Operation, ...]:
        """The operations that a caller is told of."""
        mine = self._toolsets(caller)
        if mine is None:
            return self.listed
        return tuple(op for op in self.operations.values() if op.toolset in mine)

    async def call(self, name: str, arguments: Mapping[str, Any], caller: Caller) -> Output:
        """Run one operation. Raises only `VaultError`; anything else is logged with an id."""
        op = self.operations.get(name)
        subject = name if op is None else arguments.get(op.subject) if op.subject else None
        record, end = CallRecord(), CallEnd()
        caller = replace(caller, trail=record)
        try:
            tool = op.name if op else "unknown"
            with self._telemetry.call(tool, caller.door, lambda: record.denied) as end:
                return await self._run(op, name, arguments, caller)
        finally:
            self._untold.append(partial(self._tell, name, subject, caller, record, end))
            if op and op.access == "read" and (end.outcome, end.decision) == ("ok", "allow"):
                # Nothing was changed and nothing refused: the answer goes out first.
                asyncio.get_running_loop().call_soon(self._tell_all)
            else:
                self._tell_all()

    async def perform(
        self, name: str, subject: str, caller: Caller, work: Callable[[Caller], Awaitable[T]]
    ) -> T:
        """Run what is no operation, with the limits, the log and the audit of one."""
        record, end = CallRecord(), CallEnd()
        caller = replace(caller, trail=record)
        try:
            with self._telemetry.call(name, caller.door, lambda: record.denied) as end:
                try:
                    with self.limiter.call(caller, 0):
                        return await work(caller)
                except VaultError:
                    raise
                except Exception as error:
                    raise unexpected(error) from error
        finally:
            self._untold.append(partial(self._tell, name, subject, caller, record, end))
            self._tell_all()

    def _tell_all(self) -> None:
        while self._untold:
            self._untold.popleft()()

    def _tell(
        self, name: str, subject: object, caller: Caller, record: CallRecord, end: CallEnd
    ) -> None:
        """Count a call that is over, and write its lines in the log and in the audit."""
        self._telemetry.tell(end, caller.name, None if subject is None else str(subject)[:200])
        if self._audit is not None:
            self._audit.call(name, caller, record, end.outcome, end.seconds)

    async def _run(
        self, op: Operation | None, name: str, arguments: Mapping[str, Any], caller: Caller
    ) -> Output:
        if op is None or not self.offers(name, caller):
            raise NotFound(
                f"There is no tool named {name[:80]!r}.", "List the tools to see what there is."
            )
        try:
            return await self._limited(op, arguments, caller)
        except VaultError:
            raise
        except Exception as error:
            raise unexpected(error) from error

    async def _limited(self, op: Operation, arguments: Mapping[str, Any], caller: Caller) -> Output:
        written = content_bytes(arguments) if op.access == "write" else 0
        with self.limiter.call(caller, written):
            output = await op.run(self._service, caller, _validated(op, arguments))
        # What is done is told, however long it is: whoever hears of a failure does it again.
        if op.access == "read" and (most := self.limiter.answer_bytes(caller)):
            _check_size(output, most)
        return output


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


def _check_size(output: Output, most: int) -> None:
    try:
        size = len(output.model_dump_json(exclude_none=True).encode())
    except PydanticSerializationError:  # a name that is no text; the door has a way to send it
        size = len(repr(output))
    size += len(output.media.data) if output.media else 0
    if size > most:
        raise TooLarge(
            f"The answer has {size} bytes and you may get {most}.",
            "Ask for less: a smaller page, fewer notes, a part of the note.",
            size=size,
            limit=most,
        )


def _arguments(op: Operation) -> list[str]:
    return [field.alias or name for name, field in op.input.model_fields.items()]


def _problems(error: ValidationError) -> list[str]:
    problems = []
    for item in error.errors(include_url=False, include_input=False)[:5]:
        where = ".".join(str(part)[:60] for part in item["loc"])
        what = "is not an argument" if item["type"] == "extra_forbidden" else item["msg"]
        problems.append(f"{where} {what}" if where else what)
    return problems
