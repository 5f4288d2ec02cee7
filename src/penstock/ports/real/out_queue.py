"""The queue of unsent parts of a connection: what one `sendmsg` takes, and what is left after it.

Pure, except that small file slices are read. Called by connection.py for each send of more than one part.
"""

import socket
from collections import deque
from collections.abc import Iterable
from typing import Final, cast

from penstock.ports.network import FileSlice, Part
from penstock.ports.real.slices import read_slice

# Measured: below this, one read and one sendmsg beat sendmsg + sendfile.
COPIED_SLICE_MAX: Final = 64 * 1024
PARTS_PER_SEND_MAX: Final = 256

Buffer = bytes | bytearray | memoryview


def gather(out: deque[Part]) -> tuple[list[Buffer], int]:
    """Return the next buffers to send and the flags for `sendmsg`. Ends before a slice that `sendfile` sends."""
    gathered: list[Buffer] = []
    for part in out:
        if type(part) is not FileSlice:
            gathered.append(cast(bytes, part))
        elif part.size <= COPIED_SLICE_MAX:
            gathered.append(read_slice(part))
        else:
            return gathered, socket.MSG_MORE
        if len(gathered) == PARTS_PER_SEND_MAX:
            break
    return gathered, 0


def drop_sent(out: deque[Part], sent: int, gathered: Iterable[Buffer]) -> None:
    """Drop the parts that were sent; keep the unsent rest of a part that was sent incompletely."""
    for buffer in gathered:
        size = len(buffer)
        if sent < size:
            if sent:
                out[0] = memoryview(buffer)[sent:]
            return
        sent -= size
        out.popleft()


def size_in_memory(out: Iterable[Part]) -> int:
    return sum(len(cast(bytes, part)) for part in out if type(part) is not FileSlice)
