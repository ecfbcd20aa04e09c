"""The settings: read once from the environment and an optional YAML file, checked as a whole.

The only module that reads the environment. Every field is an upper-case variable of the same name;
the file (`VAULT_MCP_CONFIG`) holds the same names in lower case, and the environment wins. A secret
`X` may come from a file named by `X_FILE`.
"""

import hashlib
import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    IPvAnyAddress,
    SecretStr,
    ValidationError,
)

CONFIG_VARIABLE = "VAULT_MCP_CONFIG"
Toolset = Literal["core", "find", "edit", "graph", "devlog", "admin"]
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/(?!\.)[A-Za-z0-9._-]{1,100}")
TOOLSETS: tuple[Toolset, ...] = ("core", "find", "edit", "graph", "devlog", "admin")


class SettingsError(Exception):
    """All that is wrong with the settings, one line each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def _listed(value: Any) -> Any:
    """A comma-separated string is a list."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


Listed = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class Settings(BaseModel):
    """Everything a user can choose. Frozen; built by `load`, passed down by `app`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    vault_path: Path = Field(description="The folder to serve: the vault or a subfolder of it.")
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(1065, ge=0, le=65535, description="Port to listen on.")
    state_dir: Path = Field(description="Index, mirror and journal; on local disk.")
    auth: Literal["none", "token"] = Field(
        description="`token` (the default unless HOST is loopback and PUBLIC_URL unset) or `none`: all may enter."
    )
    auth_token: SecretStr | None = Field(
        None,
        description="A fixed bearer token beside those of `vault-mcp token` (or AUTH_TOKEN_FILE).",
    )
    caller_token: SecretStr | None = Field(
        None, description="The token that stdio acts under with AUTH=token (or CALLER_TOKEN_FILE)."
    )
    jwt_issuer: str | None = Field(
        None, description="Accept JWTs of this issuer; with JWT_AUDIENCE and JWT_JWKS."
    )
    jwt_audience: str | None = Field(None, description="The audience that a JWT must be for.")
    jwt_jwks: str | None = Field(
        None, description="The issuer's public keys: a JWKS file or an https URL."
    )
    jwt_caller_claim: str = Field("sub", min_length=1, description="The claim that names a caller.")
    public_url: str | None = Field(
        None,
        pattern=r"^https?://[A-Za-z0-9._\[\]:-]+/?$",
        description="Where clients reach this server, like `https://vault.example.ts.net`.",
    )
    trusted_proxy: IPvAnyAddress | None = Field(
        None, description="The proxy whose Tailscale-User-Login is believed, for admin pages alone."
    )
    admins: Listed = Field((), description="Tailscale logins that may administer, comma-separated.")
    allowed_hosts: Listed = Field(
        (),
        description="Host headers to accept besides this host's own, like `vault.example.ts.net`.",
    )
    allowed_origins: Listed = Field((), description="Browser origins to accept besides loopback.")
    scan_interval: float = Field(
        15.0, gt=0, le=3600, description="Seconds between scans while the vault is changing."
    )
    index_budget_mb: int = Field(
        512,
        ge=1,
        description="Full text to keep before that of notes unused for longest is given up.",
    )
    vault_marker: str = Field(
        ".vault-mcp",
        pattern=r"^\.[A-Za-z0-9._-]{1,60}$",
        description="Marker file in the vault's root that tells it from an empty folder.",
    )
    require_mount: Literal["auto", "true", "false"] = Field(
        "auto", description="Whether VAULT_PATH must be a mount; `auto` remembers what it was."
    )
    rclone_rc: str | None = Field(
        None,
        pattern=r"^unix:///.+$",
        description="rclone's remote control, `unix:///run/rclone/rc.sock`; makes writes certain.",
    )
    staging_dir: Path | None = Field(
        None,
        description="Where notes lie while rclone uploads them, if not below STATE_DIR.",
    )
    obsidian_vault: str | None = Field(None, description="The vault's name, for obsidian:// links.")
    obsidian_prefix: str | None = Field(
        None, description="Where VAULT_PATH lies inside the Obsidian vault, like `claude`."
    )
    time_zone: str | None = Field(
        None, description="The zone of dates in devlogs and decisions, like `Europe/Berlin`."
    )
    project_layout: Literal["flat", "per-project"] = Field(
        "flat", description="`per-project` keeps devlogs and ADRs below a folder of each project."
    )
    publish_repos: Listed = Field(
        (), description="GitHub repositories that adr_publish may write to, `owner/name,…`."
    )
    toolsets: Annotated[tuple[Toolset, ...] | None, BeforeValidator(_listed)] = Field(
        None, description="Which groups of tools to offer, and no others."
    )
    policy_file: Path | None = Field(
        None, description="Path rules, `policy.yaml`; without it the vault folder is the grant."
    )
    write_mode: Literal["on", "confirm", "dry-run", "off"] = Field(
        "on",
        description="`confirm` asks a person, `dry-run` shows the diff and writes nothing, `off` refuses.",
    )
    confirm_by: Literal["client", "queue"] = Field(
        "client", description="Whether `confirm` asks through the client if it can, or never."
    )
    approval_hours: float = Field(
        24.0, gt=0, le=24 * 365, description="Hours that a write waits for its approval."
    )
    approval_seconds: float = Field(
        300.0, gt=0, le=3600, description="Seconds that a call waits for its user's answer."
    )
    history_days: float = Field(
        90.0, gt=0, le=36500, description="Days to keep what notes said before they were changed."
    )
    history_mb: int = Field(
        512, ge=1, description="Room for that; beyond it the oldest goes first."
    )
    audit_mb: float = Field(
        16, gt=0, le=1024, description="Size at which the audit goes on in a new file."
    )
    audit_files: int = Field(
        32, ge=2, le=10_000, description="Files of the audit to keep; the oldest goes first."
    )
    max_note_mb: float = Field(
        10, gt=0, le=200, description="Largest note to read, write or index."
    )
    max_attachment_mb: float = Field(
        10, gt=0, le=200, description="Largest attachment to read or write."
    )
    write_ack: Literal["journal", "mount", "drive"] | None = Field(
        None,
        description="When a write on a mount is answered: in the `journal`, in rclone's cache "
        "(`mount`) or on the remote (`drive`); unset: as far as can be known.",
    )
    write_when_down: Literal["refuse", "queue"] = Field(
        "refuse", description="`queue` puts writes on record while the vault can't be reached."
    )
    mount_timeout: float = Field(
        10.0, gt=0.1, le=300, description="Seconds a call may wait for the mount."
    )
    session_idle_minutes: float = Field(
        30.0, gt=0, description="Minutes after which an unused MCP session ends."
    )
    max_sessions: int = Field(256, ge=1, description="MCP sessions that may be open at once.")
    calls_per_second: float = Field(
        100.0, ge=0, description="Calls that one caller may make in a second; 0 is no limit."
    )
    calls_burst: int = Field(300, ge=1, description="Calls that it may make at once after a rest.")
    concurrent_calls: int = Field(
        32, ge=0, description="Calls of one caller that may run at once; 0 is no limit."
    )
    write_mb_per_hour: float = Field(
        512.0, ge=0, description="What one caller may write in an hour; 0 is no limit."
    )
    answer_kb: int = Field(
        0, ge=0, description="Longest answer to one caller's reads; 0 leaves it to the tools."
    )
    max_connections: int = Field(
        512, ge=8, description="HTTP connections that may be open at once."
    )
    max_streams: int = Field(
        64, ge=1, description="Event streams that one caller may keep open at once."
    )
    client_timeout: float = Field(
        30.0,
        gt=0,
        le=3600,
        description="Seconds for a request's head, and for an unread answer to get on.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Log level."
    )
    log_format: Literal["text", "json"] = Field("text", description="Log format.")

    @property
    def max_note_bytes(self) -> int:
        return int(self.max_note_mb * 1024 * 1024)

    @property
    def max_attachment_bytes(self) -> int:
        return int(self.max_attachment_mb * 1024 * 1024)

    @property
    def max_message_bytes(self) -> int:
        """The longest request: JSON escapes can double a note, base64 adds a third."""
        return max(2 * self.max_note_bytes, self.max_attachment_bytes * 3 // 2) + (1 << 20)

    def now(self) -> datetime:
        """This moment where the user is."""
        zone = ZoneInfo(self.time_zone) if self.time_zone else None
        return datetime.now(zone).astimezone(zone)

    @property
    def public_base(self) -> str | None:
        """PUBLIC_URL as others are put together from it, without a slash at its end."""
        return self.public_url.rstrip("/") if self.public_url else None

    @property
    def is_loopback(self) -> bool:
        return _is_loopback(self.host)


def load(
    environ: Mapping[str, str] | None = None,
    sample: Path | None = None,
    door: Literal["http", "stdio"] = "http",
) -> Settings:
    """Read and check the settings; `sample` stands in for a VAULT_PATH that nobody set.

    Over stdio AUTH is `none` unless it is said. Raises `SettingsError` with every problem at once.
    """
    env = dict(os.environ if environ is None else environ)
    problems: list[str] = []
    values = {**_from_file(env, problems), **_from_environment(env, problems)}
    if sample is not None:
        values.setdefault("vault_path", sample)
    if door == "stdio":
        values.setdefault("auth", "none")
    values = _with_defaults(values, env)
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        problems += [_problem(item) for item in error.errors(include_url=False)]
        raise SettingsError(problems) from None
    problems += _contradictions(settings) + _unusable(settings)
    if problems:
        raise SettingsError(problems)
    return settings


def config_file(environ: Mapping[str, str] | None = None) -> Path | None:
    """The YAML file that settings are read from."""
    name = (os.environ if environ is None else environ).get(CONFIG_VARIABLE)
    return Path(name).expanduser().absolute() if name else None


def secret_files(environ: Mapping[str, str] | None = None) -> list[Path]:
    """The files that secrets are read from, the YAML file if one is in it."""
    env = os.environ if environ is None else environ
    files = [Path(env[f"{name}_FILE"]).absolute() for name in _secrets() if env.get(f"{name}_FILE")]
    config = config_file(env)
    if config is not None and {name.lower() for name in _secrets()} & set(_from_file(env, [])):
        files.append(config)
    return files


def _secrets() -> list[str]:
    fields = Settings.model_fields.items()
    return [name.upper() for name, field in fields if field.annotation == SecretStr | None]


@dataclass(frozen=True, slots=True)
class Supervision:
    """What systemd wants to be told, and how often: no setting, but its own environment."""

    address: str | None = None
    watchdog_seconds: float | None = None


def supervision(environ: Mapping[str, str] | None = None) -> Supervision:
    """Read NOTIFY_SOCKET and WATCHDOG_USEC; nothing is wanted where they are absent or not for us."""
    env = os.environ if environ is None else environ
    address = env.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return Supervision()
    # A leading @ stands for the zero byte of an abstract address.
    address = "\0" + address[1:] if address.startswith("@") else address
    micros = env.get("WATCHDOG_USEC", "")
    is_ours = env.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    watched = is_ours and micros.isdecimal() and int(micros) > 0
    return Supervision(address, int(micros) / 1e6 if watched else None)


def describe(settings: Settings) -> dict[str, Any]:
    """The effective settings for people: secrets hidden, paths as text."""
    return {name.upper(): _shown(getattr(settings, name)) for name in Settings.model_fields}


def _from_file(env: Mapping[str, str], problems: list[str]) -> dict[str, Any]:
    name = env.get(CONFIG_VARIABLE)
    if not name:
        return {}
    try:
        data = yaml.safe_load(Path(name).expanduser().read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{CONFIG_VARIABLE}: {name} can't be read: {error.__class__.__name__}")
        return {}
    except yaml.YAMLError as error:
        problems.append(
            f"{CONFIG_VARIABLE}: {name} is not valid YAML: {str(error).splitlines()[0]}"
        )
        return {}
    if not isinstance(data, dict):
        problems.append(f"{CONFIG_VARIABLE}: {name} must hold `name: value` lines")
        return {}
    values = {str(key).lower(): value for key, value in data.items()}
    for key in sorted(set(values) - set(Settings.model_fields)):
        problems.append(f"{key}: no such setting (in {name})")
        del values[key]
    return {key: _scalar(key, value) for key, value in values.items()}


def _scalar(key: str, value: Any) -> Any:
    # YAML makes `require_mount: true` a bool; the setting has three words.
    if key == "require_mount" and isinstance(value, bool):
        return "true" if value else "false"
    return value


def _from_environment(env: Mapping[str, str], problems: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in Settings.model_fields:
        variable = name.upper()
        if env.get(variable):
            values[name] = env[variable]
        elif variable in _secrets() and env.get(f"{variable}_FILE"):
            try:
                values[name] = Path(env[f"{variable}_FILE"]).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                problems.append(f"{variable}_FILE: can't be read: {error.__class__.__name__}")
    return values


def _with_defaults(values: dict[str, Any], env: Mapping[str, str]) -> dict[str, Any]:
    values = dict(values)
    if isinstance(values.get("require_mount"), str):
        word = values["require_mount"].lower()
        values["require_mount"] = {"1": "true", "yes": "true", "0": "false", "no": "false"}.get(
            word, word
        )
    for name in ("policy_file", "staging_dir"):
        if values.get(name):
            values[name] = Path(str(values[name])).expanduser().absolute()
    for name in ("log_level", "log_format", "auth"):
        if isinstance(values.get(name), str):
            values[name] = values[name].lower()
    if values.get("vault_path"):
        values["vault_path"] = Path(str(values["vault_path"])).expanduser().absolute()
        values.setdefault("state_dir", _default_state_dir(values["vault_path"], env))
        values["state_dir"] = Path(str(values["state_dir"])).expanduser().absolute()
    else:
        values.setdefault("state_dir", Path("state"))
    wanted = values.get("auth_token") or values.get("jwt_issuer")
    # Behind a proxy a loopback address is open to whoever reaches the proxy.
    is_private = _is_loopback(str(values.get("host", "127.0.0.1"))) and not values.get("public_url")
    values.setdefault("auth", "none" if is_private and not wanted else "token")
    return values


def _default_state_dir(vault: Path, env: Mapping[str, str]) -> Path:
    home = env.get("XDG_STATE_HOME") or str(
        Path(env.get("HOME") or "~").expanduser() / ".local/state"
    )
    return Path(home) / "vault-mcp" / hashlib.sha256(str(vault).encode()).hexdigest()[:12]


def _contradictions(settings: Settings) -> list[str]:
    problems = []
    token = settings.auth_token.get_secret_value() if settings.auth_token else ""
    if token and len(token) < 16:
        problems.append("AUTH_TOKEN: use at least 16 characters")
    jwt = [settings.jwt_issuer, settings.jwt_audience, settings.jwt_jwks]
    if any(jwt) and not all(jwt):
        problems.append("JWT_ISSUER: goes together with JWT_AUDIENCE and JWT_JWKS")
    if settings.jwt_jwks and settings.jwt_jwks.lower().startswith("http://"):
        problems.append("JWT_JWKS: must be an https URL or a file")
    if settings.admins and settings.trusted_proxy is None:
        problems.append("ADMINS: needs TRUSTED_PROXY, whose word about a login is believed")
    for name, folder in (("STATE_DIR", settings.state_dir), ("STAGING_DIR", settings.staging_dir)):
        if folder and settings.vault_path in (folder, *folder.parents):
            problems.append(f"{name}: must not lie inside the vault")
    return problems


def _unusable(settings: Settings) -> list[str]:
    problems = []
    try:
        settings.now()
    except (OSError, ValueError, LookupError):  # zoneinfo raises each of them for some names
        problems.append(f"TIME_ZONE: {settings.time_zone!r} is no zone; use one like Europe/Berlin")
    odd = [name for name in settings.publish_repos if not _REPOSITORY.fullmatch(name)]
    return problems + [f"PUBLISH_REPOS: {name!r} is not like owner/name" for name in odd]


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _problem(item: Any) -> str:
    name = ".".join(str(part) for part in item["loc"]).upper()
    if item["type"] == "missing" and name == "VAULT_PATH":
        return "VAULT_PATH: not set; name the folder that holds the notes"
    return f"{name}: {item['msg'][0].lower()}{item['msg'][1:]} (got {str(item['input'])[:80]!r})"


def _shown(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return "***"
    if isinstance(value, Path | ipaddress.IPv4Address | ipaddress.IPv6Address):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
