from collections import deque

import pytest

from penstock.ports.network import FileSlice, Part
from penstock.ports.real.slices import drop_sent, size_in_memory
from penstock_sim.disk import SimDisk


@pytest.mark.parametrize(
    ("sent", "left"), [(0, [b"abc", b"def"]), (2, [b"c", b"def"]), (3, [b"def"]), (4, [b"ef"]), (6, [])]
)
def test_sent_bytes_are_dropped_and_the_rest_is_kept(sent: int, left: list[bytes]) -> None:
    out: deque[Part] = deque([b"abc", b"def"])
    drop_sent(out, sent, [b"abc", b"def"])
    assert [bytes(part) for part in out if not isinstance(part, FileSlice)] == left


def test_file_slices_take_no_memory() -> None:
    file = SimDisk().open("/file", create=True)
    assert size_in_memory([b"head", FileSlice(file, 0, 10), b"tail"]) == 8
