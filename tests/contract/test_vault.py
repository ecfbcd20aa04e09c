"""The vault contract: the same promises on every kind of storage."""

import threading
import unicodedata
from collections.abc import Callable

import pytest

from server.errors import Conflict, NotFound, TooLarge, Unavailable, VaultError
from server.models import Content, NotePath, etag_of
from server.vault.mounts import MountWatch
from server.workers import Deadline
from tests.contract.beds import Bed, Opened
from tests.drive.processes import wait_for


def put(data: bytes) -> Callable[[Content | None], bytes]:
    return lambda _current: data


def append(line: bytes) -> Callable[[Content | None], bytes]:
    return lambda current: (current.data if current else b"") + line


def edit(opened: Opened, path: str, change: Callable[[Content | None], bytes]) -> None:
    opened.vault.edit(NotePath(path), change, Deadline.after(60))


def read(opened: Opened, path: str) -> bytes | None:
    found = opened.vault.read(NotePath(path))
    return found.content.data if found else None


def shows(opened: Opened, path: str, data: bytes | None) -> bool:
    """Whether this is read; a mount that is just learning of a change may refuse for a while."""
    try:
        return read(opened, path) == data
    except Unavailable:
        return False


def test_the_protocol_fits_the_storage(bed: Bed) -> None:
    opened = bed.open()
    written = opened.vault.edit(NotePath("a.md"), put(b"x"), Deadline.after(30))
    assert written.protocol == bed.protocol
    assert written.uploaded is (bed.protocol != "mount")


def test_write_then_read_and_the_truth_behind(bed: Bed) -> None:
    opened = bed.open()
    assert read(opened, "a.md") is None
    edit(opened, "a.md", put(b"one"))
    assert read(opened, "a.md") == b"one"
    edit(opened, "a.md", append(b"\ntwo, and longer than before"))
    assert read(opened, "a.md") == b"one\ntwo, and longer than before"
    edit(opened, "a.md", put(b"s"))
    assert read(opened, "a.md") == b"s"
    assert wait_for(lambda: bed.remote("a.md") == b"s")


@pytest.mark.parametrize(
    "data", [b"", b"\xef\xbb\xbfbom", b"\xff\xfe\x00binary", b"crlf\r\n" * 3, b"no newline"]
)
def test_bytes_are_kept_as_they_are(bed: Bed, data: bytes) -> None:
    opened = bed.open()
    edit(opened, "a.md", put(data))
    assert read(opened, "a.md") == data
    assert wait_for(lambda: bed.remote("a.md") == data)


def test_folders_are_made_and_found(bed: Bed) -> None:
    opened = bed.open()
    edit(opened, "deep/er/still/a.md", put(b"x"))
    assert read(opened, "deep/er/still/a.md") == b"x"
    assert wait_for(lambda: bed.remote("deep/er/still/a.md") == b"x")
    assert [e.path for e in opened.vault.list_folder("deep/er")] == ["deep/er/still"]


def test_nothing_but_the_note_is_left_behind(bed: Bed) -> None:
    opened = bed.open()
    for number in range(3):
        edit(opened, "a.md", put(b"%d" % number))
    assert wait_for(lambda: bed.remote("a.md") == b"2")
    wait_for(
        lambda: {entry.name for entry in bed.folder.iterdir()} - {".vault-mcp"} == {"a.md"}, 30
    )


def test_an_existing_name_in_another_form_or_case_is_used(bed: Bed) -> None:
    opened = bed.open()
    edit(opened, "Café.md", put(b"one"))
    edit(opened, "café.md", append(b" two"))
    edit(opened, unicodedata.normalize("NFC", "CAFÉ.MD"), append(b" three"))
    assert read(opened, "Café.md") == b"one two three"
    assert len([n for n in bed.folder.iterdir() if not n.name.startswith(".")]) == 1


def test_a_change_may_refuse(bed: Bed) -> None:
    opened = bed.open()
    edit(opened, "a.md", put(b"one"))

    def refuse(current: Content | None) -> bytes:
        assert current is not None
        raise Conflict("no", etag=current.etag)

    with pytest.raises(Conflict) as caught:
        edit(opened, "a.md", refuse)
    assert caught.value.details["etag"] == etag_of(b"one")
    assert read(opened, "a.md") == b"one"
    with pytest.raises(NotFound):
        edit(opened, "new/a.md", lambda _: (_ for _ in ()).throw(NotFound("no")))
    assert not (bed.folder / "new").exists()


def test_too_large_a_note_is_refused_and_the_old_one_stays(bed: Bed) -> None:
    opened = bed.open()
    edit(opened, "a.md", put(b"one"))
    with pytest.raises(TooLarge):
        edit(opened, "a.md", put(b"x" * ((1 << 20) + 1)))
    assert read(opened, "a.md") == b"one"


def test_of_many_creators_one_wins(bed: Bed) -> None:
    """Two processes' worth of vaults, four threads each: create-if-absent has one winner."""
    sides = [bed.open("one"), bed.open("two")]
    created: list[bool] = []

    def create(opened: Opened, number: int) -> None:
        def only_new(current: Content | None) -> bytes:
            if current is not None:
                raise Conflict("exists")
            return b"%d" % number

        try:
            opened.vault.edit(NotePath("new.md"), only_new, Deadline.after(60))
            created.append(True)
        except Conflict:
            created.append(False)

    run_all([lambda n=n: create(sides[n % 2], n) for n in range(8)])  # type: ignore[misc]
    assert sorted(created) == [False] * 7 + [True]


def test_no_append_is_lost_between_threads_and_processes(bed: Bed) -> None:
    sides = [bed.open("one"), bed.open("two")]
    lines = [b"line %d\n" % n for n in range(16)]
    run_all([lambda n=n: edit(sides[n % 2], "log.md", append(lines[n])) for n in range(16)])  # type: ignore[misc]
    content = read(sides[0], "log.md")
    assert content is not None
    assert sorted(content.splitlines(keepends=True)) == sorted(lines)
    assert wait_for(lambda: bed.remote("log.md") == content)


def test_a_change_made_elsewhere_is_built_upon(bed: Bed) -> None:
    opened = bed.open()
    edit(opened, "a.md", put(b"ours"))
    wait_for(lambda: bed.remote("a.md") == b"ours")
    bed.elsewhere("a.md", b"theirs, longer than ours")
    if bed.protocol == "mount":
        # Nobody can ask the remote: the mount must have noticed first.
        wait_for(lambda: shows(opened, "a.md", b"theirs, longer than ours"), 40)
    edit(opened, "a.md", append(b"\nours"))
    assert wait_for(lambda: bed.remote("a.md") == b"theirs, longer than ours\nours")


def test_a_deadline_that_has_passed_writes_nothing(bed: Bed) -> None:
    opened = bed.open()
    with pytest.raises(VaultError) as caught:
        opened.vault.edit(NotePath("a.md"), put(b"x"), Deadline.after(0))
    assert caught.value.code == "timeout"
    assert read(opened, "a.md") is None


def run_all(calls: list[Callable[[], None]]) -> None:
    failures: list[BaseException] = []

    def guarded(call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(110)
    assert failures == []


def test_a_mount_that_goes_and_comes_is_noticed_without_reading_the_table(mount_bed: Bed) -> None:
    mount = mount_bed.mount
    assert mount is not None
    watch = MountWatch()
    try:
        before = watch.changes()
        mount.kill9()
        mount.detach()
        gone = watch.changes()
        mount.start()
        back = watch.changes()
    finally:
        watch.close()
    assert before is not None
    assert gone is not None
    assert back is not None
    # Other mounts of this machine may come and go as well.
    assert before < gone < back
