"""Memory for requests that do not arrive in one read, and which requests lose it when it is short. Pure.

Every frame may hold `FREE_SIZE` bytes. One that needs more claims memory for its whole size, so that a frame with a
claim can always be completed, and one that waits for a claim holds little. Claims stay within the budget:

| frame                       | may claim                                                                |
|-----------------------------|--------------------------------------------------------------------------|
| up to `MEDIUM_SIZE_MAX`     | what is left of the budget                                               |
| larger                      | the same, but large frames together at most three quarters of the budget |
| larger than these quarters  | beyond the budget, one frame at a time                                   |
| of a connection we opened   | always: clients cannot starve replication                                |

Waiting frames are served in the order of how much their address holds, then of how much they need. When one has
waited for `PATIENCE_S`, frames without useful progress are evicted: those that hold the most bytes for the longest time
go first. Progress is useful if the frame would be complete within the frame timeout at that pace. The time during which
the connection was not read does not count.
"""

import mmap
from collections import Counter
from collections.abc import Iterable
from typing import Final, Protocol

KIB: Final = 1024
MIB: Final = 1024 * KIB
FIRST_SIZE_MIN: Final = 16 * KIB
GROWTH: Final = 4
# How much of a frame is read at a time. New memory is zeroed on the event loop: this much takes about a millisecond.
STEP_SIZE_MAX: Final = 4 * MIB
FREE_SIZE: Final = 64 * KIB
# A frame of at least this size gets a mapping of its own, which goes back to the system with the frame. The allocator
# would keep hundreds of megabytes after a burst of large frames if something small was allocated after them.
MAPPED_SIZE_MIN: Final = 256 * KIB
MEDIUM_SIZE_MAX: Final = 2 * MIB
PATIENCE_S: Final = 2.0
# Kept for the next frame: new memory costs page faults, used memory does not.
KEPT_SIZE_MAX: Final = 4 * MIB
KEPT_COUNT_MAX: Final = 16

Memory = bytearray | mmap.mmap


class FrameOwner(Protocol):
    """The connection of a frame."""

    peer_host: str
    is_dialed: bool

    def is_read(self) -> bool:
        """Return whether this node reads from the peer. While it does not, the peer cannot make progress."""
        ...


class FrameBuffer:
    """The part of a frame that has arrived so far."""

    __slots__ = ("claim", "data", "end", "filled", "is_beyond", "is_large", "owner", "size", "step_at", "step_filled")

    def __init__(self, owner: FrameOwner, data: Memory, size: int, now: float, *, is_large: bool) -> None:
        self.owner = owner
        self.data = data
        self.size = size
        self.filled = 0
        self.end = 0
        """How far it may be filled for now."""
        self.claim = 0
        self.is_large = is_large
        self.is_beyond = False
        self.step_at = now
        """When it last made useful progress, as of the last check, and how many bytes it had then."""
        self.step_filled = 0

    def restart_timeout(self, now: float) -> None:
        """Restart the timeout: the connection was not read until now."""
        self.step_at = now
        self.step_filled = self.filled

    def stalled_s(self, now: float, step: int) -> float:
        """Return how long it has not advanced by `step` bytes; call it regularly, as it updates the progress."""
        if self.filled - self.step_filled >= step or not self.owner.is_read():
            self.restart_timeout(now)
        return now - self.step_at


class FrameMemory:
    def __init__(self, budget: int, frame_s_max: float = 30.0) -> None:
        self.limit(budget, frame_s_max)
        self.used = 0
        self.buffers: dict[FrameBuffer, None] = {}
        self.waiting: dict[FrameBuffer, float] = {}
        """Frames that wait for memory, and since when."""
        self._used_large = 0
        self._beyond: FrameBuffer | None = None
        self._kept: list[Memory] = []

    @property
    def held(self) -> int:
        return self.used + (0 if self._beyond is None else self._beyond.size)

    def limit(self, budget: int, frame_s_max: float) -> None:
        self.budget = budget
        self._medium_max = min(MEDIUM_SIZE_MAX, budget // 16)
        self._large_budget = budget - budget // 4
        self._steps = max(frame_s_max / PATIENCE_S, 1.0)

    # -- buffers ---------------------------------------------------------------------------

    def take(self, owner: FrameOwner, size: int, have: memoryview, now: float) -> FrameBuffer:
        """Return a buffer for a frame of that size whose first bytes have arrived."""
        for index, data in enumerate(self._kept):
            if len(data) >= size:
                del self._kept[index]
                break
        else:
            growth = 1 if size >= MAPPED_SIZE_MIN else GROWTH
            data = bytearray(min(size, max(FIRST_SIZE_MIN, len(have) * growth)))
        data[: len(have)] = have
        buffer = FrameBuffer(owner, data, size, now, is_large=size > self._medium_max)
        buffer.filled = buffer.step_filled = len(have)
        self.buffers[buffer] = None
        self._claim(buffer, min(size, max(FREE_SIZE, len(have))))
        if len(have) > FREE_SIZE:
            self._claim_all(buffer)
        buffer.end = min(len(data), buffer.claim)
        return buffer

    def grow(self, buffer: FrameBuffer) -> bool:
        """Extend the buffer; return False if there is no memory for it now."""
        if buffer.end == buffer.claim and not self._claim_all(buffer):
            return False
        data = buffer.data
        size = len(data)
        if buffer.end == size:
            assert isinstance(data, bytearray), "a mapped buffer has room for the whole frame"
            if buffer.size >= MAPPED_SIZE_MIN and buffer.claim == buffer.size:
                self._map(buffer)
            else:
                data.extend(bytes(min(buffer.claim, size * GROWTH) - size))
        buffer.end = min(len(buffer.data), buffer.claim, buffer.end + STEP_SIZE_MAX)
        return True

    @staticmethod
    def _map(buffer: FrameBuffer) -> None:
        """Give a frame memory for all of its bytes; the system provides pages only when they are used."""
        mapped = mmap.mmap(-1, buffer.size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        mapped[: buffer.filled] = buffer.data[: buffer.filled]
        buffer.data = mapped

    def fill(self, buffer: FrameBuffer, data: memoryview) -> int:
        """Copy the bytes of a frame into its buffer, as far as there is memory; return how many."""
        taken = 0
        while taken < len(data) and buffer.filled < buffer.size:
            if buffer.filled == buffer.end and not self.grow(buffer):
                break
            count = min(buffer.end - buffer.filled, len(data) - taken)
            buffer.data[buffer.filled : buffer.filled + count] = data[taken : taken + count]
            buffer.filled += count
            taken += count
        return taken

    def give_back(self, buffer: FrameBuffer, *, is_reusable: bool = True) -> None:
        del self.buffers[buffer]
        self.waiting.pop(buffer, None)
        if buffer.is_beyond:
            self._beyond = None
        elif not buffer.owner.is_dialed:
            self.used -= buffer.claim
            if buffer.is_large:
                self._used_large -= buffer.claim
        if is_reusable and len(buffer.data) <= KEPT_SIZE_MAX and len(self._kept) < KEPT_COUNT_MAX:
            self._kept.append(buffer.data)

    def _claim_all(self, buffer: FrameBuffer) -> bool:
        more = buffer.size - buffer.claim
        if more and not buffer.owner.is_dialed:
            if buffer.is_large and buffer.size > self._large_budget:
                if self._beyond is not None:
                    return False
                self._claim(buffer, -buffer.claim)
                buffer.claim = buffer.size
                buffer.is_beyond = True
                self._beyond = buffer
                return True
            if self.used + more > self.budget or (buffer.is_large and self._used_large + more > self._large_budget):
                return False
        self._claim(buffer, more)
        return True

    def _claim(self, buffer: FrameBuffer, more: int) -> None:
        buffer.claim += more
        if not buffer.owner.is_dialed:
            self.used += more
            if buffer.is_large:
                self._used_large += more

    # -- shortage --------------------------------------------------------------------------

    def wait(self, buffer: FrameBuffer, now: float) -> None:
        """Note that a frame needs more memory than is free. From now on the progress of all others is tracked."""
        if not self.waiting:
            self._update_progress(now)
        self.waiting[buffer] = now

    def feed(self) -> list[FrameBuffer]:
        """Return the waiting frames that can be read on now, with extended buffers."""
        if not self.waiting:
            return []
        held: Counter[str] = Counter()
        for buffer in self.buffers:
            held[buffer.owner.peer_host] += buffer.claim
        fed = []
        for buffer in sorted(self.waiting, key=lambda each: (held[each.owner.peer_host], each.size)):
            if self.grow(buffer):
                del self.waiting[buffer]
                fed.append(buffer)
        return fed

    def evicted(self, now: float) -> list[FrameBuffer]:
        """Return the frames to evict for those that have waited too long. Call every `PATIENCE_S`."""
        self._update_progress(now)
        late = [buffer for buffer, since in self.waiting.items() if now - since >= PATIENCE_S]
        if not late:
            return []
        need = sum(each.size - each.claim for each in late if not each.is_large)
        large = [each for each in late if each.is_large]
        need_large = sum(each.size - each.claim for each in large if each.size <= self._large_budget)
        stalled = [
            each
            for each in self.buffers
            if now - each.step_at >= PATIENCE_S and each.filled < each.size
            if each not in self.waiting and not each.owner.is_dialed
        ]
        stalled.sort(key=lambda each: each.claim * (now - each.step_at), reverse=True)
        victims: dict[FrameBuffer, None] = {}
        if self._beyond in stalled and any(each.size > self._large_budget for each in large):
            victims[self._beyond] = None
        stalled = [each for each in stalled if not each.is_beyond]
        free = self.budget - self.used
        free += _choose(stalled, victims, need - free)
        free_large = self._large_budget - self._used_large + sum(each.claim for each in victims if each.is_large)
        freed = _choose([each for each in stalled if each.is_large], victims, need_large - free_large)
        free += freed
        free += _choose(stalled, victims, need + min(need_large, free_large + freed) - free)
        self._break_deadlock(late, victims)
        return list(victims)

    def _break_deadlock(self, late: list[FrameBuffer], victims: dict[FrameBuffer, None]) -> None:
        """If waiting frames hold all the memory, evict the largest of them for the smallest."""
        smallest = min(late, key=lambda each: (each.size, self.waiting[each]))
        need = smallest.size - smallest.claim
        others = sorted((each for each in self.waiting if each is not smallest), key=lambda each: -each.size)
        _choose(others, victims, sum(each.claim for each in self.waiting) + need - self.budget)
        if smallest.is_large and smallest.size <= self._large_budget:
            others = [each for each in others if each.is_large]
            _choose(others, victims, sum(each.claim for each in others) + smallest.size - self._large_budget)

    def overdue(self, buffer: FrameBuffer, now: float, frame_s_max: float) -> bool:
        """Return whether a frame has made no useful progress for the frame timeout. Call at intervals."""
        return buffer.stalled_s(now, self._step(buffer)) > frame_s_max

    def _update_progress(self, now: float) -> None:
        for buffer in self.buffers:
            buffer.stalled_s(now, self._step(buffer))

    def _step(self, buffer: FrameBuffer) -> int:
        return max(int(buffer.size / self._steps), 1)


def _choose(candidates: Iterable[FrameBuffer], victims: dict[FrameBuffer, None], lacking: int) -> int:
    """Add candidates to the victims until they free what is lacking; return how much the added ones hold."""
    freed = 0
    for buffer in candidates:
        if freed >= lacking:
            break
        if buffer not in victims:
            victims[buffer] = None
            freed += buffer.claim
    return freed
