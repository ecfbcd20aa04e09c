"""rclone's remote control over a Unix socket: a small synchronous client.

Owns the wire (JSON over HTTP over a socket) and the shapes of the answers; knows nothing of notes,
journals or locks. Everything that goes wrong is an `RcError`, whose message is fit for an agent:
what rclone itself said may name host paths and stays in `reason`, for the log.
"""

import http.client
import json
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

from server.errors import Unavailable

_SCHEME = "unix://"
_FRACTION = re.compile(r"\.(\d{1,9})")
_HASH = re.compile(r"^([^/{}]*)\{[^{}]*\}(?=:)")
_NOW = -1e9
"""As an upload's expiry: due long ago."""


class RcError(Unavailable):
    """rclone did not do it. `status` is its HTTP status, None when it did not answer at all."""

    def __init__(self, command: str, reason: str, status: int | None = None) -> None:
        what = "refused" if status else "could not be asked for"
        super().__init__(
            f"rclone {what} {command}.",
            "Try again in a moment; health_check tells the state of the mount.",
        )
        self.command = command
        self.reason = reason
        self.status = status


@dataclass(frozen=True, slots=True)
class RemoteStat:
    """A file as the backend has it. `md5` is empty where the backend keeps none, `id` off Drive."""

    size: int
    md5: str
    mtime_ns: int
    id: str


@dataclass(frozen=True, slots=True)
class RemoteItem:
    """A file or folder of a listing; `size` is -1 for what has none, like a Google document."""

    path: str
    is_folder: bool
    stat: RemoteStat


@dataclass(frozen=True, slots=True)
class Upload:
    """One file that waits in rclone's cache for its upload, or is being uploaded."""

    name: str
    id: int
    size: int
    tries: int
    uploading: bool
    expiry: float
    """Seconds until the upload is due."""


class Rc:
    """One rclone. Every call opens its own connection, so threads may share an `Rc`."""

    def __init__(self, address: str, timeout: float = 30.0) -> None:
        if not address.startswith(_SCHEME + "/"):
            raise ValueError("rclone's remote control is reached over unix:///path only")
        self._path = address.removeprefix(_SCHEME)
        self._timeout = timeout

    def call(self, command: str, timeout: float | None = None, **params: Any) -> dict[str, Any]:
        """Run one remote control command. Raises `RcError`, whatever goes wrong.

        `timeout` bounds each wait for the socket. After a timeout rclone may still finish the work.
        """
        connection = _Connection(self._path, self._timeout if timeout is None else timeout)
        try:
            connection.request(
                "POST", f"/{command}", json.dumps(params), {"Content-Type": "application/json"}
            )
            response = connection.getresponse()
            status, body = response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            raise RcError(command, repr(error)) from error
        finally:
            connection.close()
        try:
            answer = json.loads(body)
        except ValueError as error:
            raise RcError(command, f"no JSON: {body[:200]!r}", status) from error
        if status != http.client.OK or not isinstance(answer, dict):
            reason = answer.get("error") if isinstance(answer, dict) else answer
            raise RcError(command, str(reason), status)
        return answer

    def version(self) -> str:
        """rclone's version, such as `v1.75.2`."""
        return _text("core/version", self.call("core/version"), "version")

    def vfs_list(self) -> list[str]:
        """What this rclone has mounted, spelled as every `fs` argument takes it.

        rclone tells `gd{hash}:vault` where flags change the remote, but can't parse that itself.
        """
        return [_HASH.sub(r"\1", str(name)) for name in self.call("vfs/list").get("vfses") or ()]

    def hashes(self, fs: str) -> list[str]:
        """The kinds of hashes that the backend keeps: none behind encryption, for one."""
        return [str(name) for name in self.call("operations/fsinfo", fs=fs).get("Hashes") or ()]

    def forget_folders(self) -> None:
        """Drop the folder ids that rclone remembers: another device may have moved or trashed them."""
        self.call("fscache/clear")

    def queue(self, fs: str) -> list[Upload]:
        """What has not reached the backend yet."""
        items = self.call("vfs/queue", fs=fs).get("queue") or ()
        try:
            return [_upload(item) for item in items]
        except (KeyError, TypeError, ValueError) as error:
            _malformed("vfs/queue", error)

    def set_expiry(self, fs: str, upload_id: int, seconds: float = _NOW) -> None:
        """Make a waiting upload due in `seconds`, by default at once."""
        self.call("vfs/queue-set-expiry", fs=fs, id=upload_id, expiry=seconds)

    def stat(self, fs: str, remote: str, timeout: float | None = None) -> RemoteStat | None:
        """The backend's own view of a file, past every cache of the mount; None: no such file."""
        options = {"showHash": True, "hashTypes": ["md5"], "noMimeType": True, "filesOnly": True}
        item = self.call("operations/stat", timeout, fs=fs, remote=remote, opt=options).get("item")
        if item is None:
            return None
        try:
            return _remote_stat(item)
        except (KeyError, TypeError, ValueError) as error:
            _malformed("operations/stat", error)

    def list(self, fs: str, folder: str, timeout: float) -> list[RemoteItem]:
        """Everything below a folder as the backend has it, in one go. Names may occur twice."""
        options = {"recurse": True, "showHash": True, "hashTypes": ["md5"], "noMimeType": True}
        answer = self.call("operations/list", timeout, fs=fs, remote=folder, opt=options)
        try:
            return [_remote_item(item) for item in answer.get("list") or ()]
        except (KeyError, TypeError, ValueError) as error:
            _malformed("operations/list", error)

    def has_folder(self, fs: str, remote: str) -> bool:
        """Whether the backend has the folder now. Ask before creating a file in it.

        rclone remembers a Drive folder by its id, and would go on filling one that another device
        has trashed or moved away.
        """
        options = {"dirsOnly": True, "noMimeType": True}
        return (
            self.call("operations/stat", fs=fs, remote=remote, opt=options).get("item") is not None
        )

    def copy_file(self, src_folder: str, src_name: str, fs: str, remote: str) -> None:
        """Upload a local file; missing parents are made, an existing file keeps its Drive id.

        IgnoreTimes: an upload must not be skipped because size and time happen to agree.
        """
        self.call(
            "operations/copyfile",
            srcFs=src_folder,
            srcRemote=src_name,
            dstFs=fs,
            dstRemote=remote,
            _config={"IgnoreTimes": True},
        )

    def refresh_all(self, fs: str, timeout: float) -> None:
        """Have the mount list everything anew."""
        self.call("vfs/refresh", timeout, fs=fs, recursive="true")

    def refresh(self, fs: str, folder: str = "") -> bool:
        """Have the mount list a folder anew; False when the mount does not know the folder."""
        params: dict[str, Any] = {"dir": folder} if folder else {}
        result = self.call("vfs/refresh", fs=fs, **params).get("result")
        return isinstance(result, dict) and result.get(folder) == "OK"

    def delete_file(self, fs: str, remote: str) -> bool:
        """Delete a file at the backend (Drive: into its trash); False when there is none."""
        try:
            self.call("operations/deletefile", fs=fs, remote=remote)
        except RcError as error:
            if error.status == http.client.NOT_FOUND:
                return False
            raise
        return True

    def stats_last_error(self) -> str:
        """The last error of any transfer since rclone began, or "". It may name host paths."""
        return str(self.call("core/stats").get("lastError") or "")


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _upload(item: Mapping[str, Any]) -> Upload:
    return Upload(
        name=str(item["name"]),
        id=int(item["id"]),
        size=int(item["size"]),
        tries=int(item["tries"]),
        uploading=bool(item["uploading"]),
        expiry=float(item["expiry"]),
    )


def _remote_stat(item: Mapping[str, Any]) -> RemoteStat:
    return RemoteStat(
        size=int(item["Size"]),
        md5=str((item.get("Hashes") or {}).get("md5", "")),
        mtime_ns=_nanoseconds(str(item["ModTime"])),
        id=str(item.get("ID", "")),
    )


def _remote_item(item: Mapping[str, Any]) -> RemoteItem:
    return RemoteItem(str(item["Path"]), bool(item["IsDir"]), _remote_stat(item))


def _nanoseconds(moment: str) -> int:
    """A time in RFC 3339 with up to nine decimals, more than a `datetime` keeps."""
    fraction = _FRACTION.search(moment)
    whole = datetime.fromisoformat(_FRACTION.sub("", moment))
    nanoseconds = int(fraction[1].ljust(9, "0")) if fraction else 0
    return int(whole.timestamp()) * 1_000_000_000 + nanoseconds


def _text(command: str, answer: Mapping[str, Any], key: str) -> str:
    value = answer.get(key)
    if not isinstance(value, str):
        _malformed(command, key)
    return value


def _malformed(command: str, what: object) -> NoReturn:
    raise RcError(command, f"unexpected answer: {what!r}", http.client.OK)
