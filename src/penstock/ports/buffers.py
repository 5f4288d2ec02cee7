"""Memory for frames that are larger than one read.

A buffer grows with the bytes that have really come, never with the size that was only
announced, and all of them together stay within a budget: a thousand connections that each
promise 100 MB and send ten bytes cost nothing. Once the budget is used up, one connection
at a time may still go beyond it, so that honest clients always get on.
"""

FIRST_SIZE_MIN = 16 * 1024
GROWTH = 4
# Kept warm for the next frame: fresh memory costs page faults, used memory does not.
KEPT_SIZE_MAX = 4 * 1024 * 1024
KEPT_COUNT_MAX = 16


class FrameBuffer:
    """The part of a frame that has come so far."""

    __slots__ = ("data", "filled", "size", "started")

    def __init__(self, data: bytearray, size: int, started: float) -> None:
        self.data = data
        self.size = size
        self.filled = 0
        self.started = started


class BufferPool:
    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.used = 0
        self._beyond: FrameBuffer | None = None
        self._kept: list[bytearray] = []

    def take(self, size: int, have: memoryview, now: float) -> FrameBuffer:
        """A buffer for a frame of that size, of which the first bytes are there; `grow` makes room for more."""
        for index, data in enumerate(self._kept):
            if len(data) >= size:
                del self._kept[index]
                break
        else:
            data = bytearray(min(size, max(FIRST_SIZE_MIN, len(have) * GROWTH)))
        self.used += len(data)
        data[: len(have)] = have
        buffer = FrameBuffer(data, size, now)
        buffer.filled = len(have)
        return buffer

    def grow(self, buffer: FrameBuffer) -> bool:
        """Make room for more bytes; False if the budget does not allow it for now."""
        capacity = min(buffer.size, len(buffer.data) * GROWTH)
        more = capacity - len(buffer.data)
        if self.used + more > self.budget:
            if self._beyond is not None and self._beyond is not buffer:
                return False
            self._beyond = buffer
        buffer.data.extend(bytes(more))
        self.used += more
        return True

    def give_back(self, buffer: FrameBuffer) -> None:
        data = buffer.data
        self.used -= len(data)
        if self._beyond is buffer:
            self._beyond = None
        if len(data) <= KEPT_SIZE_MAX and len(self._kept) < KEPT_COUNT_MAX:
            self._kept.append(data)
