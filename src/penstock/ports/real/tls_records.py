"""The TLS records that have arrived on a socket, handed to OpenSSL one at a time.

One call into OpenSSL handles every record it has been given until one brings data: a peer that sends thousands of
small records without data, such as requests for new keys, would hold the event loop for as long as that takes.
"""

import socket
from typing import Final

HEADER_SIZE: Final = 5
RECORD_SIZE_MAX: Final = 16 * 1024 + 2048
"""The largest size that a record's header may announce, in any version of TLS."""
RECEIVE_SIZE: Final = 256 * 1024
CONTENT_TYPES: Final = range(0x14, 0x19)
HANDSHAKE: Final = 0x16

# One loop reads one socket at a time.
_received = bytearray(RECEIVE_SIZE)
_received_view = memoryview(_received)


class TlsRecords:
    """What one socket has received and OpenSSL has not been given yet."""

    __slots__ = ("_arrived", "_position")

    def __init__(self) -> None:
        self._arrived: bytes | memoryview = b""
        self._position = 0

    def receive(self, raw: socket.socket) -> int:
        """Read from the socket behind the records that are left; return the count. Raises BlockingIOError."""
        left = self._arrived[self._position :]
        size = len(left)
        _received_view[:size] = left
        self._arrived, self._position = _received_view[:size], 0
        count = raw.recv_into(_received_view[size:])
        self._arrived = _received_view[: size + count]
        return count

    def begins_with(self, content_type: int) -> bool:
        return self._arrived[self._position] == content_type

    def next(self) -> bytes | memoryview | None:
        """Return the next record, valid until something else is received, or None if it has not arrived whole."""
        start = self._position
        end = self._end(start)
        if end is None:
            return None
        self._position = end
        return self._arrived[start:end]

    def has_next(self) -> bool:
        return self._end(self._position) is not None

    def _end(self, start: int) -> int | None:
        arrived = self._arrived
        if len(arrived) - start < HEADER_SIZE:
            return None
        size = arrived[start + 3] << 8 | arrived[start + 4]
        if size > RECORD_SIZE_MAX or arrived[start] not in CONTENT_TYPES:
            return len(arrived)  # not a record: OpenSSL says what is wrong with it
        end = start + HEADER_SIZE + size
        return end if end <= len(arrived) else None

    def keep(self) -> None:
        """Copy what is left out of the buffer that all sockets share."""
        if self._position or isinstance(self._arrived, memoryview):
            self._arrived, self._position = bytes(self._arrived[self._position :]), 0
