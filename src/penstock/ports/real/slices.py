"""Sends slices of files; tells a file that cannot be read from a peer that is gone. Called by connection.py."""

import errno
import os
from typing import Final, cast

from penstock.ports.network import FileSlice
from penstock.ports.real.disk import RealFile

# What sendfile raises for the file; anything else is the socket's.
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
    """Send what the socket takes of a slice; return how much that is. Raises BlockingIOError when the peer is full."""
    try:
        sent = os.sendfile(socket_fd, cast(RealFile, piece.file).fd, piece.position, piece.size)
    except OSError as error:
        if error.errno in FILE_ERRORS:
            raise ReadFailed(piece, error) from None
        raise
    if sent == 0:
        raise _too_short(piece)
    return sent


def _too_short(piece: FileSlice) -> ReadFailed:
    """Fewer bytes than announced would shift all that follows."""
    return ReadFailed(piece, OSError(errno.EIO, "the file is shorter than what was to be sent", piece.file.path))
