"""Both kinds of compaction worker: their input, their messages, and how they end."""

from collections.abc import Callable

from penstock.ports.clock import Timer
from penstock.storage.compaction.child_worker import MODULE, ChildWorker
from penstock.storage.compaction.inline import InlineWorker
from penstock.storage.compaction.task import (
    CANCEL,
    RESUME,
    WORKER_DIED,
    CleanedGroup,
    Failed,
    Finished,
    Task,
    WorkerMessage,
    encode_message,
)
from tests.support.compacting import HandClock, cleaner_for
from tests.unit.storage.compaction.compacted_partition import NOW_MS, CompactedPartition

TASK = Task(
    folder="/data/table-0", segments=(), bound=0, first_dirty=0, now_ms=0, now_lags=False, delete_retention_ms=0,
    segment_bytes=1, index_interval=1, index_size_max=1, map_memory=1, map_load_factor=1.0, bytes_per_second=1.0,
)  # fmt: skip
GROUP = CleanedGroup(base_offset=0, replaced=(0, 5), size=100, txn_entries=(0, 0))


class FakeChild:
    def __init__(self, on_line: Callable[[bytes], None], on_end: Callable[[str], None]) -> None:
        self.say, self.end = on_line, on_end
        self.heard: list[bytes] = []
        self.is_killed = False

    def send(self, line: bytes) -> None:
        self.heard.append(line)

    def kill(self) -> None:
        self.is_killed = True


class FakeChildren:
    def __init__(self) -> None:
        self.all: list[FakeChild] = []

    def spawn(self, module: str, on_line: Callable[[bytes], None], on_end: Callable[[str], None]) -> FakeChild:
        assert module == MODULE
        self.all.append(FakeChild(on_line, on_end))
        return self.all[-1]

    async def stop(self) -> None:
        return


def test_one_child_runs_several_passes() -> None:
    children = FakeChildren()
    worker = ChildWorker(children)
    told: list[WorkerMessage] = []

    def on_message(message: WorkerMessage) -> None:
        told.append(message)
        if isinstance(message, CleanedGroup):
            worker.resume()

    for _ in range(2):
        worker.start(TASK, on_message)
        children.all[0].say(encode_message(GROUP))
        children.all[0].say(encode_message(Finished(clean_end=5)))
    assert told == [GROUP, Finished(clean_end=5)] * 2
    assert children.all[0].heard == [TASK.encode(), RESUME] * 2
    assert len(children.all) == 1


def test_a_rejected_group_ends_the_pass() -> None:
    children = FakeChildren()
    worker = ChildWorker(children)
    worker.start(TASK, lambda message: worker.cancel())
    children.all[0].say(encode_message(GROUP))
    assert children.all[0].heard[-1] == CANCEL
    worker.start(TASK, lambda message: None)
    assert children.all[0].heard[-1] == TASK.encode()


def test_a_child_that_dies_fails_its_pass_and_is_replaced() -> None:
    children = FakeChildren()
    worker = ChildWorker(children)
    told: list[WorkerMessage] = []
    worker.start(TASK, told.append)
    children.all[0].end("killed")
    assert told == [Failed(why="killed", errno=WORKER_DIED)]
    worker.start(TASK, lambda message: None)
    assert len(children.all) == 2
    worker.stop()
    assert children.all[1].is_killed


def test_a_child_that_dies_during_a_swap_fails_its_pass_after_the_swap() -> None:
    children = FakeChildren()
    worker = ChildWorker(children)
    told: list[WorkerMessage] = []
    worker.start(TASK, told.append)
    children.all[0].say(encode_message(GROUP))
    children.all[0].end("killed")
    assert told == [GROUP]
    worker.resume()
    assert told == [GROUP, Failed(why="killed", errno=WORKER_DIED)]


class SteppingClock(HandClock):
    """A child whose messages a test delivers."""

    def __init__(self) -> None:
        super().__init__(NOW_MS)
        self.waiting: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        self.waiting.append((delay_s, callback))
        return super().call_later(delay_s, callback)

    def step(self) -> float:
        delay_s, callback = self.waiting.pop(0)
        callback()
        return delay_s


def fill(world: CompactedPartition) -> None:
    for number in range(30):
        world.put((f"k{number % 5}", f"{number}" * 50))
    world.log.roll()


def test_the_event_loop_compacts_in_slices_without_child_processes() -> None:
    world = CompactedPartition()
    fill(world)
    clock = SteppingClock()
    cleaner = cleaner_for(world.store, world.disk, clock, worker=InlineWorker(world.disk, clock))
    cleaner.start()
    slices = 0
    while world.log.compaction.clean_offset < 30:
        clock.step()
        slices += 1
    assert slices > 2
    assert len(world.records()) == 5
    assert not cleaner.is_busy


def test_a_pass_that_is_stopped_leaves_no_files_behind() -> None:
    world = CompactedPartition()
    fill(world)
    clock = SteppingClock()
    cleaner = cleaner_for(world.store, world.disk, clock, worker=InlineWorker(world.disk, clock))
    cleaner.start()
    clock.step()
    cleaner.stop()
    assert not world.log.compaction.is_running
    assert not [name for name in world.names() if name.endswith(".cleaned")]
    assert len(world.records()) == 30
