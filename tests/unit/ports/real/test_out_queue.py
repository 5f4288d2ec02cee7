import socket
from collections import deque

import pytest

from penstock.ports.network import FileSlice, Part
from penstock.ports.real.out_queue import (
    COPIED_SLICE_MAX,
    PARTS_PER_SEND_MAX,
    drop_sent,
    gather,
    size_in_memory,
)
from penstock_sim.disk import SimDisk


def piece(size: int) -> FileSlice:
    file = SimDisk().open("/file", create=True)
    file.write((b"f" * size,), 0)
    return FileSlice(file, 0, size)


def test_small_slices_are_read_into_the_send() -> None:
    out: deque[Part] = deque([b"head", piece(10), b"tail"])
    assert gather(out) == ([b"head", b"f" * 10, b"tail"], 0)
    assert size_in_memory(out) == 8


def test_a_send_ends_before_a_large_slice_and_announces_more() -> None:
    out: deque[Part] = deque([b"head", piece(COPIED_SLICE_MAX + 1), b"tail"])
    assert gather(out) == ([b"head"], socket.MSG_MORE)


def test_the_number_of_parts_in_a_send_is_bounded() -> None:
    out: deque[Part] = deque([b"x"] * (PARTS_PER_SEND_MAX + 1))
    assert gather(out) == ([b"x"] * PARTS_PER_SEND_MAX, 0)


@pytest.mark.parametrize(
    ("sent", "left"), [(0, [b"abc", b"def"]), (2, [b"c", b"def"]), (3, [b"def"]), (4, [b"ef"]), (6, [])]
)
def test_sent_bytes_are_dropped_and_the_rest_is_kept(sent: int, left: list[bytes]) -> None:
    out: deque[Part] = deque([b"abc", b"def"])
    drop_sent(out, sent, [b"abc", b"def"])
    assert [bytes(part) for part in out if not isinstance(part, FileSlice)] == left
