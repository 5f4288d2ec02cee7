"""Parts of replies: sending of file slices, and the queue of parts after a send. Called by connection.py.

Distinguishes a file that cannot be read from a closed peer.
"""

import errno
import os
from collections import deque
from collections.abc import Iterable
from typing import Final, cast

from penstock.ports.network import FileSlice, Part
from penstock.ports.real.disk import RealFile

# Errors of sendfile that concern the file; any other is the socket's.
FILE_ERRORS: Final = frozenset(
    {errno.EIO, errno.EINVAL, errno.ENXIO, errno.EBADMSG, errno.EUCLEAN, errno.EREMOTEIO, errno.ESTALE, errno.EOVERFLOW}
)


class ReadFailed(Exception):
    """Bytes of a file that were to be sent cannot be read."""

    def __init__(self, piece: FileSlice, error: OSError) -> None:
        super().__init__(str(error))
        self.piece = piece
        self.error = error


def read_slice(piece: FileSlice) -> bytes:
    try:
        data = piece.file.read(piece.size, piece.position)
    except OSError as error:
        raise ReadFailed(piece, error) from None
    if len(data) < piece.size:
        raise _too_short(piece)
    return data


def send_slice(socket_fd: int, piece: FileSlice) -> int:
    """Send as much of a slice as the socket takes; return how much. Raises BlockingIOError when the peer is full."""
    try:
        sent = os.sendfile(socket_fd, cast(RealFile, piece.file).fd, piece.position, piece.size)
    except OSError as error:
        if error.errno in FILE_ERRORS:
            raise ReadFailed(piece, error) from None
        raise
    if sent == 0:
        raise _too_short(piece)
    return sent


def first_slices(out: deque[Part], size_max: int) -> list[FileSlice]:
    """Return the first slices that are not known to be cached, up to a total size; cut the last in two if needed."""
    found: list[FileSlice] = []
    for number, part in enumerate(out):
        if type(part) is not FileSlice or part.is_cached:
            continue
        rest = part.size - size_max
        if rest > 0:
            out.insert(number, FileSlice(part.file, part.position, size_max, part.owner))
            out[number + 1] = FileSlice(part.file, part.position + size_max, rest, part.owner)
            part = cast(FileSlice, out[number])
        found.append(part)
        size_max -= part.size
        if size_max == 0:
            break
    return found


def _too_short(piece: FileSlice) -> ReadFailed:
    """Return the error for a file that is too short: fewer bytes than announced would shift everything behind them."""
    return ReadFailed(piece, OSError(errno.EIO, "the file is shorter than the slice to send", piece.file.path))


def drop_sent(out: deque[Part], sent: int, gathered: Iterable[bytes | bytearray | memoryview]) -> None:
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
    """Return the size of the parts, without file slices."""
    return sum(len(cast(bytes, part)) for part in out if type(part) is not FileSlice)
