"""The messages between a program and the process that runs its queries.

A frame is its kind (one byte), the size of its content (8 bytes, big-endian) and the content. Rows and exceptions are
pickled: both ends run this code, and no other program can write to the pipe.
"""

from struct import Struct
from typing import IO, Final

_HEAD: Final = Struct(">cQ")
HEAD_SIZE: Final = _HEAD.size

# From the process that runs queries.
HELLO: Final = b"H"
"""The process is ready for a query."""
LOADED: Final = b"L"
"""The engine is loaded; the timeout of the query starts."""
OPENED: Final = b"O"
"""The query is valid; the content says whether Arrow batches are available, b"1" or b""."""
COLUMNS: Final = b"C"
PIECE: Final = b"P"
"""Some rows."""
BYTES: Final = b"B"
"""A part of an Arrow IPC stream."""
END: Final = b"E"
FAILED: Final = b"X"
"""An exception; the last frame of a query."""

# To the process that runs queries.
QUERY: Final = b"Q"
ROWS: Final = b"R"
ARROW: Final = b"A"
FILTER: Final = b"F"
"""A condition on records."""
RECORDS: Final = b"D"
"""Records to be tested with the condition; the answer is a PIECE with the indexes of those that fulfil it."""
DONE: Final = b"Z"
"""No more records follow; the answer is END."""


class Closed(Exception):
    """The other side closed the pipe."""


def write_frame(pipe: IO[bytes], kind: bytes, content: bytes | memoryview = b"") -> None:
    pipe.write(_HEAD.pack(kind, len(content)))
    pipe.write(content)
    pipe.flush()


def read_frame(pipe: IO[bytes]) -> tuple[bytes, bytes]:
    kind, size = _HEAD.unpack(_exactly(pipe, HEAD_SIZE))
    return kind, _exactly(pipe, size)


def _exactly(pipe: IO[bytes], size: int) -> bytes:
    data = pipe.read(size)
    if len(data) < size:
        raise Closed
    return data
