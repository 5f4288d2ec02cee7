"""The messages between a program that asks for a query and the process that runs it.

A frame is its kind (one byte), the size of its content (8 bytes, big-endian) and the content. Rows and exceptions are
pickled: both ends are this program, and nobody else can write to the pipe.
"""

from struct import Struct
from typing import IO, Final

_HEAD: Final = Struct(">cQ")
HEAD_SIZE: Final = _HEAD.size

# From the process that runs queries.
HELLO: Final = b"H"
"""It is ready for a query."""
LOADED: Final = b"L"
"""The engine is there: from here on it is the query that takes time."""
OPENED: Final = b"O"
"""The query can be run; the content says whether Arrow batches can be had, b"1" or b""."""
COLUMNS: Final = b"C"
PIECE: Final = b"P"
"""A few rows."""
BYTES: Final = b"B"
"""A part of an Arrow IPC stream."""
END: Final = b"E"
FAILED: Final = b"X"
"""An exception; nothing follows it."""

# To it.
QUERY: Final = b"Q"
ROWS: Final = b"R"
ARROW: Final = b"A"


class Closed(Exception):
    """The other side has ended."""


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
