"""Share partitions on a leader: loading, acquiring from the log, writing outcomes, locks, sessions, new leaders."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from penstock.coordinator.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator
from penstock.model.errors import NotLeaderOrFollower, Refusal, StorageError, UnknownTopicOrPartition
from penstock.ports.network import FileSlice
from penstock.shares.acquiring import AcquireLimits
from penstock.shares.commands import InitializeState, ReadState, WriteState
from penstock.shares.errors import InvalidRecordState
from penstock.shares.led_partition import LedSharePartition
from penstock.shares.sessions import SessionKey, ShareSession
from penstock.shares.states import AcknowledgementBatch, RecordState, StateRange
from penstock.wire.batch import BatchHeader, iter_batches
from penstock_sim.disk import SimDisk
from tests.unit.shares.share_node import KEY, LED, ShareNode, acknowledged

ACCEPT, RELEASE = 1, 2
LIMITS = AcquireLimits(records_max=500)


@pytest.fixture(params=[False, True], ids=["coordinator elsewhere", "coordinator here"])
async def node(request: pytest.FixtureRequest) -> AsyncIterator[ShareNode]:
    node = ShareNode(lock_duration_ms=1_000)
    node.state.is_here = request.param
    await node.initialize()
    yield node
    node.leader.close()


async def opened(node: ShareNode) -> LedSharePartition:
    led = node.leader.open(*LED)
    await node.settle()
    assert led.check()
    return led


async def acquired_beside_its_coordinator() -> tuple[ShareNode, LedSharePartition]:
    """Return a share partition with one acquired record, on the node that coordinates its state."""
    node = ShareNode()
    await node.initialize()
    node.state.is_here = True
    node.produce(1)
    led = await opened(node)
    led.acquire("m", LIMITS, 1 << 20)
    return node, led


def ranges(led: LedSharePartition, member: str = "m", limits: AcquireLimits = LIMITS) -> list[tuple[int, int, int]]:
    acquired = led.acquire(member, limits, 1 << 20)
    return [] if acquired is None else [tuple(each) for each in acquired.ranges]  # type: ignore[misc]


def offsets(records: FileSlice) -> list[tuple[int, int]]:
    """Return the first and last offset of each batch in a slice."""
    data = records.file.read(records.size, records.position)
    headers = [BatchHeader.at(each) for each in iter_batches(data)]
    return [(header.base_offset, header.next_offset - 1) for header in headers]


async def accept(led: LedSharePartition, first: int, last: int, kind: int = ACCEPT, member: str = "m") -> None:
    await acknowledged(led, member, [AcknowledgementBatch(first, last, (kind,))])


async def test_a_fetch_gets_the_batches_that_it_acquires(node: ShareNode) -> None:
    node.produce(3, 2, 4)
    led = await opened(node)
    first = led.acquire("a", AcquireLimits(records_max=4), 1 << 20)
    second = led.acquire("b", AcquireLimits(records_max=4), 1 << 20)
    assert first is not None and second is not None
    assert (offsets(first.records), first.ranges, first.record_count) == ([(0, 2), (3, 4)], [(0, 4, 1)], 5)
    assert (offsets(second.records), second.ranges) == ([(5, 8)], ((5, 8, 1),))
    assert led.acquire("a", LIMITS, 1 << 20) is None


async def test_a_log_is_notified_of_batches_that_cannot_be_read_and_checks_them_with_the_next_fetch(
    node: ShareNode,
) -> None:
    node.produce(3)
    led = await opened(node)
    log = node.partition.log
    disk = log.directory.disk
    assert isinstance(disk, SimDisk)
    disk.make_unreadable(log.segments.active.path, 0, 10)
    with pytest.raises(OSError, match="Input/output error"):
        led.acquire("a", LIMITS, 1 << 20)
    with pytest.raises(StorageError, match="cannot read"):
        led.acquire("a", LIMITS, 1 << 20)


async def test_a_log_is_notified_of_batches_that_are_missing_from_its_file(node: ShareNode) -> None:
    node.produce(3, 2)
    led = await opened(node)
    ranges(led, limits=AcquireLimits(records_max=3))
    log = node.partition.log
    log.segments.active.file.truncate(log.segments.active.boundary_positions[1] + 10)
    with pytest.raises(OSError, match="shorter"):
        led.acquire("a", LIMITS, 1 << 20)
    assert log.damaged_from == 3
    with pytest.raises(StorageError):
        led.acquire("a", LIMITS, 1 << 20)


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
    assert node.leader.find(*LED) is None, "the state of an earlier epoch is not used"
    with pytest.raises(NotLeaderOrFollower):
        node.leader.open(*LED)
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
    assert node.leader.find(*LED) is None


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
    node.state.errors = [CoordinatorNotAvailable.code] * node.state.attempts
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
    await node.settle()
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
    await node.settle()
    assert woken and ranges(led) == [(0, 0, 2)]
    node.leader.close()


async def test_state_that_cannot_be_read_is_an_error_for_the_fetches_that_wait_for_it_only(node: ShareNode) -> None:
    node.produce(1)
    node.state.errors = [UnknownTopicOrPartition.code]
    led = node.leader.open(*LED)
    await node.settle()
    assert isinstance(led.error, UnknownTopicOrPartition)
    with pytest.raises(UnknownTopicOrPartition):
        led.check()
    assert ranges(await opened(node)) == [(0, 0, 1)]


async def test_state_is_read_again_until_there_is_a_coordinator(node: ShareNode) -> None:
    node.produce(1)
    node.state.errors = [CoordinatorNotAvailable.code, NotCoordinator.code, CoordinatorLoadInProgress.code]
    led = node.leader.open(*LED)
    await node.settle()
    assert node.leader.open(*LED) is led
    assert led.check() and ranges(led) == [(0, 0, 1)]


async def test_state_that_was_not_initialized_is_an_error(node: ShareNode) -> None:
    led = node.leader.open("other", LED[1])
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


async def test_a_group_that_starts_at_the_end_waits_until_a_new_leader_knows_the_high_watermark() -> None:
    node = ShareNode(auto_offset_reset="latest")
    await node.initialize()
    node.produce(3)
    leadership = node.partition.leadership
    assert leadership is not None
    leadership.epoch_start = 5
    led = node.leader.open(*LED)
    await node.settle()
    assert not led.check() and node.leader.open(*LED) is led
    node.produce(2)
    await node.settle()
    assert led.check() and ranges(led) == []
    assert node.state.start_offset == 5
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
        added=[LED[1]],
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
    assert node.leader.find(*LED) is None
    writes = [command for command in node.state.commands if isinstance(command, WriteState)]
    assert writes[-1].ranges == (StateRange(0, 1, 0, 1),), "the release is written first"
    assert ranges(await opened(node)) == [(0, 1, 2)]


async def test_another_leader_is_refused(node: ShareNode) -> None:
    node.partition.leadership = None
    with pytest.raises(NotLeaderOrFollower):
        node.leader.open(*LED)
    with pytest.raises(NotLeaderOrFollower):
        node.leader.open("g", LED[1]._replace(partition=9))


async def test_acknowledgements_of_one_iteration_of_the_loop_share_a_write(node: ShareNode) -> None:
    node.produce(6)
    led = await opened(node)
    for member in "abc":
        led.acquire(member, AcquireLimits(records_max=2, is_strict=True), 1 << 20)
    await asyncio.gather(accept(led, 4, 5, member="c"), accept(led, 0, 1, member="a"), accept(led, 2, 2, member="b"))
    (write,) = [each for each in node.state.commands if isinstance(each, WriteState) and each.ranges]
    assert (write.start_offset, write.ranges, write.complete_count) == (
        3,
        (StateRange(0, 2, RecordState.ACKNOWLEDGED, 1), StateRange(4, 5, RecordState.ACKNOWLEDGED, 1)),
        2,
    )


async def test_a_write_that_fails_fails_all_acknowledgements_in_it_and_no_rejected_one_is_in_it(
    node: ShareNode,
) -> None:
    node.produce(4)
    led = await opened(node)
    for member in "ab":
        led.acquire(member, AcquireLimits(records_max=2, is_strict=True), 1 << 20)
    node.state.errors = [CoordinatorNotAvailable.code] * node.state.attempts
    failures = await asyncio.gather(
        accept(led, 0, 1, member="a"),
        accept(led, 2, 3, member="b"),
        accept(led, 0, 0, member="b"),
        return_exceptions=True,
    )
    assert [type(each) for each in failures] == [CoordinatorNotAvailable, CoordinatorNotAvailable, InvalidRecordState]
    assert led.flight is not None and led.flight.start == 0
    await asyncio.gather(accept(led, 0, 1, member="a"), accept(led, 2, 3, member="b"))
    assert led.flight.start == 4


async def test_an_outcome_that_is_written_on_the_same_node_is_answered_in_the_next_iteration_of_the_loop() -> None:
    node, led = await acquired_beside_its_coordinator()
    answers: list[Refusal | None] = []
    led.acknowledge("m", [AcknowledgementBatch(0, 0, (ACCEPT,))], answers.append)
    assert answers == []
    await asyncio.sleep(0)
    assert answers == [None]
    node.leader.close()


async def test_an_outcome_is_written_again_if_the_coordinator_on_the_same_node_is_not_ready() -> None:
    node, led = await acquired_beside_its_coordinator()
    node.state.errors = [CoordinatorNotAvailable.code]
    await accept(led, 0, 0)
    assert led.flight is not None and led.flight.start == node.state.start_offset == 1
    node.leader.close()


async def test_a_write_that_ends_after_the_node_has_stopped_is_not_answered() -> None:
    node, led = await acquired_beside_its_coordinator()
    node.state.held = []
    answers: list[Refusal | None] = []
    led.acknowledge("m", [AcknowledgementBatch(0, 0, (ACCEPT,))], answers.append)
    await node.settle()
    led.stop()
    node.state.errors = [CoordinatorNotAvailable.code]
    for write in node.state.held:
        write()
    await node.settle()
    assert answers == [] and not led._writes
    node.leader.close()
