"""Memory for frames: which requests get it, and which lose it when it is short. No socket; the tests set the clock."""

from __future__ import annotations

import mmap

from penstock.ports.real.frame_memory import (
    FIRST_SIZE_MIN,
    FREE_SIZE,
    KEPT_COUNT_MAX,
    MAPPED_SIZE_MIN,
    PATIENCE_S,
    STEP_SIZE_MAX,
    FrameBuffer,
    FrameMemory,
)

MIB = 1024 * 1024
BUDGET = 512 * MIB
TEN_BYTES = memoryview(b"0123456789")


class Peer:
    def __init__(self, host: str = "10.0.0.1", *, is_dialed: bool = False) -> None:
        self.peer_host = host
        self.is_dialed = is_dialed
        self.is_paused = False

    def is_read(self) -> bool:
        return not self.is_paused


def arrived(memory: FrameMemory, size: int, count: int, *, now: float = 0.0, host: str = "10.0.0.1") -> FrameBuffer:
    """Return a frame of which `count` bytes have arrived, or as many as there is memory for; it then waits."""
    buffer = memory.take(Peer(host), size, TEN_BYTES, now)
    receive(memory, buffer, count - buffer.filled, now=now)
    return buffer


def receive(memory: FrameMemory, buffer: FrameBuffer, count: int, *, now: float) -> None:
    while count and buffer not in memory.waiting:
        if buffer.filled == buffer.end and not memory.grow(buffer):
            memory.wait(buffer, now)
            return
        part = min(count, buffer.end - buffer.filled)
        buffer.filled += part
        count -= part


def evict(memory: FrameMemory, now: float) -> list[FrameBuffer]:
    victims = memory.evicted(now)
    for victim in victims:
        memory.give_back(victim)
    return victims


def test_an_announced_frame_holds_little_until_it_arrives() -> None:
    memory = FrameMemory(100 * MIB)
    buffers = [memory.take(Peer(), 99 * MIB, TEN_BYTES, 0.0) for _ in range(1000)]
    assert memory.used == 1000 * FREE_SIZE
    assert sum(len(buffer.data) for buffer in buffers) == 1000 * FIRST_SIZE_MIN
    assert all(bytes(buffer.data[: buffer.filled]) == bytes(TEN_BYTES) for buffer in buffers)


def test_a_buffer_grows_to_the_frame_and_no_further() -> None:
    memory = FrameMemory(100 * MIB)
    buffer = arrived(memory, 20 * MIB + 1, 20 * MIB + 1)
    assert buffer.filled == len(buffer.data) == 20 * MIB + 1 == memory.used
    memory.give_back(buffer)
    assert memory.used == 0


def test_a_large_frame_is_mapped_when_its_memory_is_claimed_and_keeps_its_bytes() -> None:
    memory = FrameMemory(100 * MIB)
    content = bytes(range(256)) * (MAPPED_SIZE_MIN // 256)
    buffer = memory.take(Peer(), MAPPED_SIZE_MIN, memoryview(content)[:10], 0.0)
    first: object = buffer.data
    assert memory.fill(buffer, memoryview(content)[10:]) == MAPPED_SIZE_MIN - 10
    assert (type(first), type(buffer.data)) == (bytearray, mmap.mmap)
    assert buffer.data[:] == content
    assert isinstance(arrived(memory, MAPPED_SIZE_MIN - 1, MAPPED_SIZE_MIN - 1).data, bytearray)


def test_a_mapped_frame_is_read_in_steps() -> None:
    memory = FrameMemory(100 * MIB)
    buffer = arrived(memory, 3 * STEP_SIZE_MAX, FREE_SIZE + 1)
    assert len(buffer.data) == 3 * STEP_SIZE_MAX
    assert buffer.end == FREE_SIZE + STEP_SIZE_MAX


def test_the_mappings_of_a_burst_of_frames_are_released() -> None:
    memory = FrameMemory(100 * MIB)
    buffers = [arrived(memory, MIB, MIB) for _ in range(4 * KEPT_COUNT_MAX)]
    before = _mapped_count(MIB)
    while buffers:
        memory.give_back(buffers.pop())
    assert before - _mapped_count(MIB) >= 3 * KEPT_COUNT_MAX


def _mapped_count(size: int) -> int:
    """Return how many frames of this size the private mappings of this process have room for."""
    with open("/proc/self/maps") as maps:
        ranges = [line.split()[0].split("-") for line in maps if len(line.split()) == 5]
    return sum((int(end, 16) - int(start, 16)) // size for start, end in ranges)


def test_frames_larger_than_the_budget_are_read_one_at_a_time() -> None:
    memory = FrameMemory(4 * MIB)
    first, second = arrived(memory, 8 * MIB, 5 * MIB), arrived(memory, 8 * MIB, 5 * MIB)
    assert first.filled == 5 * MIB
    assert list(memory.waiting) == [second]
    memory.give_back(first)
    assert memory.feed() == [second]
    memory.give_back(second)
    assert memory.used == memory.held == 0


def test_used_memory_is_kept_for_the_next_frame() -> None:
    memory = FrameMemory(10 * MIB)
    buffer = memory.take(Peer(), FIRST_SIZE_MIN, TEN_BYTES, 0.0)
    data = buffer.data
    memory.give_back(buffer)
    assert memory.take(Peer(), 1000, TEN_BYTES, 0.0).data is data


def test_eight_stalled_uploads_of_99_mb_leave_memory_for_ordinary_requests() -> None:
    memory = FrameMemory(BUDGET)
    for _ in range(8):
        arrived(memory, 100 * MIB, 99 * MIB)
    assert arrived(memory, 900_000, 900_000).filled == 900_000
    assert arrived(memory, 60_000, 60_000).filled == 60_000
    assert memory.used <= BUDGET


def test_a_large_upload_continues_after_the_stalled_ones_time_out() -> None:
    memory = FrameMemory(BUDGET)
    attackers = [arrived(memory, 100 * MIB, 99 * MIB) for _ in range(8)]
    honest = arrived(memory, 90 * MIB, 90 * MIB, now=1.0)
    assert honest in memory.waiting
    assert set(evict(memory, 1.0 + PATIENCE_S)) == {each for each in attackers if each.filled == 99 * MIB}
    assert memory.feed()[0] is honest
    receive(memory, honest, 90 * MIB - honest.filled, now=4.0)
    assert honest.filled == 90 * MIB


def test_a_byte_now_and_then_is_not_progress() -> None:
    memory = FrameMemory(BUDGET)
    attackers = [arrived(memory, 100 * MIB, 99 * MIB) for _ in range(3)]
    honest = arrived(memory, 90 * MIB, 90 * MIB, now=10.0)
    for attacker in attackers:
        receive(memory, attacker, int(2048 * PATIENCE_S), now=11.0)
    victims = evict(memory, 10.0 + PATIENCE_S)
    assert len(victims) == 1
    assert victims[0] in attackers
    assert memory.feed() == [honest]


def test_an_upload_that_makes_progress_is_not_evicted() -> None:
    memory = FrameMemory(BUDGET)
    honest = [arrived(memory, 100 * MIB, 20 * MIB) for _ in range(3)]
    waiting = arrived(memory, 100 * MIB, 50 * MIB, now=1.0)
    for second in range(2, 12, 2):
        for buffer in honest:
            receive(memory, buffer, 8 * MIB, now=second)
        assert evict(memory, 1.0 + second) == []
    assert waiting in memory.waiting


def test_five_hundred_stalls_of_2_mb_do_not_stop_a_request_of_900_kb() -> None:
    memory = FrameMemory(BUDGET)
    for _ in range(500):
        arrived(memory, 2 * MIB, 2 * MIB - 1)
    honest = arrived(memory, 900_000, 900_000, now=5.0)
    assert honest in memory.waiting
    assert evict(memory, 5.0 + PATIENCE_S)
    # It needs less than the attackers that also wait, so it is served first.
    assert memory.feed()[0] is honest
    assert memory.used <= BUDGET


def test_memory_held_only_by_waiting_frames_goes_to_the_smallest() -> None:
    memory = FrameMemory(16 * MIB)
    piece = memoryview(bytes(250_000))
    for _ in range(70):
        buffer = memory.take(Peer(), 10 * MIB, piece, 0.0)
        if buffer.claim < buffer.size:
            memory.wait(buffer, 0.0)
    honest = arrived(memory, 900_000, 900_000, now=1.0)
    assert honest in memory.waiting
    for now in (10.0, 20.0):
        evict(memory, now)
        memory.feed()
    assert honest not in memory.waiting


def test_the_address_that_holds_the_least_is_served_first() -> None:
    memory = FrameMemory(BUDGET)
    attackers = [arrived(memory, 100 * MIB, 99 * MIB, host="10.6.6.6") for _ in range(8)]
    honest = arrived(memory, 100 * MIB, 99 * MIB, now=1.0, host="10.0.0.2")
    memory.give_back(attackers[0])
    assert memory.feed() == [honest]


def test_the_largest_frame_that_has_stalled_longest_is_evicted_first() -> None:
    memory = FrameMemory(64 * MIB)
    small, large = arrived(memory, 8 * MIB, 7 * MIB), arrived(memory, 40 * MIB, 39 * MIB)
    waiting = arrived(memory, 30 * MIB, 30 * MIB, now=1.0)
    assert evict(memory, 1.0 + PATIENCE_S) == [large]
    assert memory.feed() == [waiting]
    assert small in memory.buffers


def test_a_frame_whose_connection_is_not_read_does_not_time_out() -> None:
    memory = FrameMemory(64 * MIB)
    buffer = arrived(memory, 40 * MIB, 39 * MIB)
    owner = buffer.owner
    assert isinstance(owner, Peer)
    owner.is_paused = True
    waiting = arrived(memory, 40 * MIB, 39 * MIB, now=1.0)
    assert not memory.overdue(buffer, 100.0, 30.0)
    assert evict(memory, 100.0) == []
    owner.is_paused = False
    assert not memory.overdue(buffer, 129.0, 30.0)
    assert evict(memory, 129.0) == [buffer]
    assert not memory.overdue(waiting, 1000.0, 30.0) or waiting in memory.waiting


def test_the_timeout_counts_from_the_last_useful_progress_not_from_the_average() -> None:
    memory = FrameMemory(BUDGET)
    buffer = arrived(memory, 100 * MIB, 99 * MIB)
    assert not memory.overdue(buffer, 29.0, 30.0)
    for second in range(30, 60, 5):
        receive(memory, buffer, 2048 * 5, now=second)
        memory.overdue(buffer, second, 30.0)
    assert memory.overdue(buffer, 60.0, 30.0)


def test_a_slow_upload_may_take_as_long_as_it_makes_progress() -> None:
    memory = FrameMemory(BUDGET)
    buffer = memory.take(Peer(), 10 * MIB, TEN_BYTES, 0.0)
    now = 0.0
    while buffer.filled < 9 * MIB:
        now += 5.0
        receive(memory, buffer, 256 * 1024, now=now)
        assert not memory.overdue(buffer, now, 30.0)
    assert now > 100.0


def test_clients_cannot_take_the_memory_of_connections_that_this_node_opened() -> None:
    memory = FrameMemory(64 * MIB)
    for _ in range(8):
        arrived(memory, 20 * MIB, 19 * MIB)
    peer = memory.take(Peer(is_dialed=True), 10 * MIB, TEN_BYTES, 0.0)
    receive(memory, peer, 10 * MIB - 10, now=0.0)
    assert peer.filled == 10 * MIB
    used = memory.used
    memory.give_back(peer)
    assert memory.used == used
