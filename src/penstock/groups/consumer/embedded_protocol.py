"""The consumer protocol embedded in the classic one, which clients exchange through the coordinator.

A subscription (versions 0-3) contains topics and, later, owned partitions and the rack; an assignment
contains partitions. The coordinator reads and writes them only for classic members of a
consumer group. Later versions are read as version 3. Refuses inconsistent bytes: Malformed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from struct import Struct
from struct import error as StructError
from typing import Final, TypeVar

from penstock.groups.commands import Describable

VERSION_MAX: Final = 3
_INT16 = Struct(">h")
_INT32 = Struct(">i")
T = TypeVar("T")


class Malformed(Exception):
    """The bytes cannot be read. The message completes a sentence of the caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    topics: tuple[str, ...]
    owned: dict[str, frozenset[int]] = field(default_factory=dict)
    rack_id: str | None = None

    def names(self, describable: Describable | None) -> frozenset[str]:
        """Return the topics, without those that the member may not describe: an assignment would reveal them."""
        names = frozenset(self.topics)
        return names if describable is None else describable(names)


class _Cursor:
    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def number(self, layout: Struct) -> int:
        (value,) = layout.unpack_from(self._data, self._position)
        self._position += layout.size
        return int(value)

    def take(self, size: int) -> bytes:
        end = self._position + size
        if size < 0 or end > len(self._data):
            raise Malformed("the embedded consumer protocol is malformed")
        taken = self._data[self._position : end]
        self._position = end
        return taken

    def text(self) -> str:
        return self.take(self.number(_INT16)).decode()

    def nullable_text(self) -> str | None:
        size = self.number(_INT16)
        return None if size < 0 else self.take(size).decode()

    def nullable_bytes(self) -> bytes | None:
        size = self.number(_INT32)
        return None if size < 0 else self.take(size)

    def array(self, element: Callable[[], T]) -> tuple[T, ...]:
        count = self.number(_INT32)
        # Every element takes at least one byte, so an invalid count is detected before memory is allocated.
        if not 0 <= count <= len(self._data) - self._position:
            raise Malformed("the embedded consumer protocol is malformed")
        return tuple([element() for _ in range(count)])

    def partitions(self) -> dict[str, frozenset[int]]:
        def topic() -> tuple[str, frozenset[int]]:
            return self.text(), frozenset(self.array(lambda: self.number(_INT32)))

        return dict(self.array(topic))


def read_subscription(data: bytes) -> Subscription:
    return _reading(data, _subscription)


def read_assignment(data: bytes) -> dict[str, frozenset[int]]:
    """Return the partitions by topic name. A member without an assignment has no bytes at all."""
    return _reading(data, _assignment) if data else {}


def write_assignment(partitions: Mapping[str, frozenset[int]], *, like: bytes) -> bytes:
    """Return the assignment in the version of the member's subscription."""
    out = bytearray(_INT16.pack(_reading(like, lambda cursor, version: version)))
    out += _INT32.pack(len(partitions))
    for topic, numbers in sorted(partitions.items()):
        name = topic.encode()
        out += _INT16.pack(len(name)) + name + _INT32.pack(len(numbers))
        for number in sorted(numbers):
            out += _INT32.pack(number)
    # The user data is null.
    return bytes(out + _INT32.pack(-1))


def _subscription(cursor: _Cursor, version: int) -> Subscription:
    topics = cursor.array(cursor.text)
    cursor.nullable_bytes()
    owned = cursor.partitions() if version >= 1 else {}
    if version >= 2:
        # Skip the generation in which the partitions were owned.
        cursor.number(_INT32)
    rack_id = cursor.nullable_text() if version >= 3 else None
    return Subscription(topics=topics, owned=owned, rack_id=rack_id)


def _assignment(cursor: _Cursor, version: int) -> dict[str, frozenset[int]]:
    partitions = cursor.partitions()
    if cursor.nullable_bytes():
        raise Malformed(
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade"
        )
    return partitions


def _reading(data: bytes, read: Callable[[_Cursor, int], T]) -> T:
    cursor = _Cursor(data)
    try:
        version = cursor.number(_INT16)
        if version < 0:
            raise Malformed("the embedded consumer protocol is malformed")
        return read(cursor, min(version, VERSION_MAX))
    except (StructError, UnicodeDecodeError):
        raise Malformed("the embedded consumer protocol is malformed") from None
