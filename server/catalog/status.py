"""Operations about the server itself."""

from typing import Any, Literal

from server.catalog.operation import Input, Operation, Output
from server.models import Caller
from server.service import Service


class HealthCheckInput(Input):
    pass


class HealthCheckOutput(Output):
    status: Literal["ok", "degraded"]
    mount: dict[str, Any]
    index: dict[str, Any]
    history: dict[str, Any] | None = None
    uploads: dict[str, Any] | None = None
    oddities: dict[str, Any] | None = None
    queue: dict[str, Any] | None = None
    obsidian: dict[str, Any]
    policy: dict[str, Any]
    audit: dict[str, Any]
    versions: dict[str, str]


async def _health_check(
    service: Service, caller: Caller, _args: HealthCheckInput
) -> HealthCheckOutput:
    health = await service.status.health(caller)
    return HealthCheckOutput.model_validate({k: _present(v) for k, v in health.items()})


def _present(part: Any) -> Any:
    return {k: v for k, v in part.items() if v is not None} if isinstance(part, dict) else part


HEALTH_CHECK = Operation(
    name="health_check",
    title="State of the vault server",
    description="State of the vault, the index and pending uploads.",
    toolset="core",
    access="read",
    input=HealthCheckInput,
    output=HealthCheckOutput,
    run=_health_check,
    idempotent=True,
)
