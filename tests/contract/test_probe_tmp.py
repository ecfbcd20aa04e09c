import time, pytest
from tests.contract.beds import Bed
from tests.contract.conftest import make_bed
from tests.contract.test_moves import *
@pytest.mark.parametrize("kind", ["drive", "rclone"])
@pytest.mark.parametrize("wait", [0, 3])
def test_probe(request, tmp_path, kind, wait):
    bed = make_bed(request, tmp_path, kind)
    opened = bed.open()
    fill(opened, {"old.md": b"uploaded", "gone.md": b"uploaded"})
    on_backend(bed, {"old.md": b"uploaded", "gone.md": b"uploaded"})
    fill(opened, {"old.md": b"changed", "gone.md": b"changed"})
    time.sleep(wait)
    print(bed.remote("old.md"), bed.remote("gone.md"))
    move(opened, "old.md", "new.md")
    remove(opened, "gone.md", b"changed")
    for n in range(4):
        print(n, {p: bed.remote(p) for p in ("old.md", "new.md", "gone.md")}, sorted(seen(bed)))
        time.sleep(1.2)
    # listing anew
    bed.mount.kill9(); bed.mount.detach(); bed.mount.start()
    print("remount", sorted(seen(bed)))
    assert 0
