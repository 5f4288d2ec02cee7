"""Share partitions on a leader: loading, acquiring from the log, writing outcomes, locks, sessions, new leaders."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from penstock.coordinator.errors import CoordinatorNotAvailable
from penstock.model.errors import NotLeaderOrFollower, Refusal
from penstock.ports.network import FileSlice
from penstock.shares.acquiring import AcquireLimits
from penstock.shares.commands import InitializeState, ReadState, WriteState
from penstock.shares.errors import InvalidRecordState
from penstock.shares.led_partition import LedSharePartition
from penstock.shares.sessions import FetchedPartition, SessionKey, ShareSession
from penstock.shares.states import AcknowledgementBatch, StateRange
from penstock.wire.batch import BatchHeader, iter_batches
from tests.unit.shares.share_node import KEY, TOPIC_ID, ShareNode

ACCEPT, RELEASE = 1, 2
LIMITS = AcquireLimits(records_max=500)


@pytest.fixture
async def node() -> AsyncIterator[ShareNode]:
    node = ShareNode(lock_duration_ms=1_000)
    await node.initialize()
    yield node
    node.leader.close()


async def opened(node: ShareNode) -> LedSharePartition:
    led = node.leader.open(KEY)
    await node.settle()
    assert led.check()
    return led


def ranges(led: LedSharePartition, member: str = "m", limits: AcquireLimits = LIMITS) -> list[tuple[int, int, int]]:
    acquired = led.acquire(member, limits, 1 << 20)
    return [] if acquired is None else [tuple(each) for each in acquired.ranges]  # type: ignore[misc]


def offsets(records: FileSlice) -> list[tuple[int, int]]:
    """Return the first and last offset of each batch in a slice."""
    data = records.file.read(records.size, records.position)
    headers = [BatchHeader.at(each) for each in iter_batches(data)]
    return [(header.base_offset, header.next_offset - 1) for header in headers]


async def accept(led: LedSharePartition, first: int, last: int, kind: int = ACCEPT, member: str = "m") -> None:
    write = led.acknowledge(member, [AcknowledgementBatch(first, last, (kind,))])
    if write is not None:
        await write


async def test_a_fetch_gets_the_batches_that_it_acquires(node: ShareNode) -> None:
    node.produce(3, 2, 4)
    led = await opened(node)
    first = led.acquire("a", AcquireLimits(records_max=4), 1 << 20)
    second = led.acquire("b", AcquireLimits(records_max=4), 1 << 20)
    assert first is not None and second is not None
    assert (offsets(first.records), first.ranges, first.record_count) == ([(0, 2), (3, 4)], [(0, 4, 1)], 5)
    assert (offsets(second.records), second.ranges) == ([(5, 8)], [(5, 8, 1)])
    assert led.acquire("a", LIMITS, 1 << 20) is None


async def test_an_outcome_is_written_before_it_is_answered(node: ShareNode) -> None:
    node.produce(5)
    led = await opened(node)
    ranges(led)
    node.state.hold = asyncio.Event()
    answered = asyncio.ensure_future(accept(led, 0, 2))
    await node.settle()
    assert not answered.done() and led.flight is not None and led.flight.start == 0
    node.state.hold.set()
    await answered
    assert (led.flight.start, node.state.start_offset) == (3, 3)


async def test_a_new_leader_continues_with_what_was_written(node: ShareNode) -> None:
    node.produce(5)
    led = await opened(node)
    ranges(led)
    await accept(led, 0, 0)
    await accept(led, 2, 2)
    node.partition.leader_epoch += 1
    assert node.leader.find(KEY) is None, "the state of an earlier epoch is not used"
    with pytest.raises(NotLeaderOrFollower):
        node.leader.open(KEY)
        led.check()
    await node.settle()
    again = await opened(node)
    assert again is not led
    assert ranges(again) == [(1, 1, 1), (3, 4, 1)]
    reads = [command for command in node.state.commands if isinstance(command, ReadState)]
    assert [read.leader_epoch for read in reads] == [0, 1]


async def test_a_fenced_leader_stops(node: ShareNode) -> None:
    node.produce(5)
    led = await opened(node)
    ranges(led)
    assert not (await node.state.ask(ReadState(KEY, 9))).error
    with pytest.raises(NotLeaderOrFollower):
        await accept(led, 0, 4)
    assert node.leader.find(KEY) is None


async def test_altered_offsets_fence_the_leader(node: ShareNode) -> None:
    node.produce(5)
    led = await opened(node)
    ranges(led)
    await accept(led, 0, 4)
    node.produce(1)
    assert ranges(led) == [(5, 5, 1)]
    assert not (await node.state.ask(InitializeState(KEY, 2, 1))).error
    with pytest.raises(NotLeaderOrFollower):
        await accept(led, 5, 5)
    assert ranges(await opened(node)) == [(1, 5, 1)]


async def test_a_failed_write_is_rolled_back(node: ShareNode) -> None:
    node.produce(5)
    led = await opened(node)
    ranges(led)
    await node.settle()
    node.state.errors = [15]
    with pytest.raises(CoordinatorNotAvailable):
        await accept(led, 0, 4)
    await accept(led, 0, 4)
    assert node.state.start_offset == 5


async def test_a_lock_expires(node: ShareNode) -> None:
    node.produce(2)
    led = await opened(node)
    ranges(led, "a")
    woken: list[bool] = []
    led.waiters[lambda: woken.append(True)] = None
    node.clock.advance(0.999)
    assert ranges(led, "b") == []
    node.clock.advance(0.002)
    assert woken
    assert ranges(led, "b") == [(0, 1, 2)]
    with pytest.raises(InvalidRecordState):
        await accept(led, 0, 1, member="a")
    await node.settle()
    assert node.state.shard.states[KEY].value.ranges == (StateRange(0, 1, 0, 1),)


async def test_a_released_record_waits_for_its_delay() -> None:
    node = ShareNode(retry_delay_ms=500)
    await node.initialize()
    node.produce(1)
    led = await opened(node)
    ranges(led)
    await accept(led, 0, 0, RELEASE)
    assert ranges(led) == []
    woken: list[bool] = []
    led.waiters[lambda: woken.append(True)] = None
    node.clock.advance(0.501)
    assert woken and ranges(led) == [(0, 0, 2)]
    node.leader.close()


async def test_state_that_cannot_be_read_is_an_error_for_the_next_fetch_only(node: ShareNode) -> None:
    node.produce(1)
    node.state.errors = [15]
    led = node.leader.open(KEY)
    await node.settle()
    with pytest.raises(CoordinatorNotAvailable):
        led.check()
    assert ranges(await opened(node)) == [(0, 0, 1)]


async def test_state_that_was_not_initialized_is_an_error(node: ShareNode) -> None:
    led = node.leader.open(KEY._replace(group="other"))
    await node.settle()
    with pytest.raises(Refusal):
        led.check()


@pytest.mark.parametrize(("reset", "first"), [("earliest", 0), ("latest", 3), ("by_duration:PT1H", 3)])
async def test_a_new_group_starts_where_it_is_configured_to(reset: str, first: int) -> None:
    node = ShareNode(auto_offset_reset=reset)
    await node.initialize()
    node.produce(3, timestamp=1_000)
    led = await opened(node)
    node.produce(1)
    assert ranges(led)[0][0] == first
    await node.settle()
    assert node.state.start_offset == first, "the first position is durable before anything is acknowledged"
    node.leader.close()


async def test_deleted_records_are_passed(node: ShareNode) -> None:
    node.produce(3, 3)
    led = await opened(node)
    assert ranges(led, limits=AcquireLimits(records_max=1)) == [(0, 2, 1)]
    node.partition.delete_before(4)
    assert ranges(led) == [(4, 5, 1)]
    await accept(led, 0, 2)
    await accept(led, 4, 5)
    assert node.state.start_offset == 6


def session(node: ShareNode, member: str, connection: str = "c", group: str = "g") -> ShareSession:
    return node.leader.check_sessions().fetch(
        SessionKey(group, member),
        0,
        added=[FetchedPartition(TOPIC_ID, 0)],
        forgotten=(),
        has_acknowledgements=False,
        connection=connection,
    )


async def test_a_closed_session_releases_its_locks(node: ShareNode) -> None:
    node.produce(2, 2)
    first, _ = session(node, "a"), session(node, "b")
    led = await opened(node)
    ranges(led, "a", AcquireLimits(records_max=1))
    ranges(led, "b", AcquireLimits(records_max=1))
    node.leader.close_session(first)
    assert not node.leader.is_open(first)
    assert ranges(led, "b") == [(0, 1, 2)]


async def test_a_lost_connection_releases_the_locks_of_its_sessions(node: ShareNode) -> None:
    node.produce(2)
    session(node, "a", "lost"), session(node, "b", "alive")
    led = await opened(node)
    ranges(led, "a")
    node.leader.connection_lost("lost")
    assert ranges(led, "b") == [(0, 1, 2)]


async def test_without_sessions_the_state_is_read_again(node: ShareNode) -> None:
    node.produce(2)
    only = session(node, "a")
    led = await opened(node)
    ranges(led, "a")
    node.leader.close_session(only)
    await node.settle()
    assert node.leader.find(KEY) is None
    writes = [command for command in node.state.commands if isinstance(command, WriteState)]
    assert writes[-1].ranges == (StateRange(0, 1, 0, 1),), "the release is written first"
    assert ranges(await opened(node)) == [(0, 1, 2)]


async def test_another_leader_is_refused(node: ShareNode) -> None:
    node.partition.leadership = None
    with pytest.raises(NotLeaderOrFollower):
        node.leader.open(KEY)
    with pytest.raises(NotLeaderOrFollower):
        node.leader.open(KEY._replace(partition=9))
