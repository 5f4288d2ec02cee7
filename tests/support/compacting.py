"""Synchronous compaction: a whole pass runs when it is requested."""

from collections.abc import Callable
from typing import Any

from penstock.config.settings import BrokerSettings
from penstock.model.ids import TopicPartition
from penstock.ports.clock import Timer
from penstock.ports.disk import Disk
from penstock.storage.compaction.cleaner import Cleaner, Worker
from penstock.storage.compaction.inline import run_step
from penstock.storage.compaction.rewrite import compact
from penstock.storage.compaction.task import Task, WorkerMessage, decode_message, encode_message
from penstock.storage.store import LogStore


class _Alarm:
    def cancel(self) -> None:
        return


class HandClock:
    """A clock that moves only on request; timers never fire."""

    def __init__(self, wall_ms: int) -> None:
        self.now_ms = wall_ms

    def monotonic(self) -> float:
        return self.now_ms / 1000

    def wall_ms(self) -> int:
        return self.now_ms

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        return _Alarm()


class AtOnce:
    """A worker that runs the pass within `start`; messages are serialized as for a child process."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.message: list[WorkerMessage] = []
        self.before_telling: Callable[[], None] = lambda: None

    def start(self, task: Task, on_message: Callable[[WorkerMessage], None]) -> None:
        self._on_message = on_message
        self._steps = compact(self._disk, Task.decode(task.encode()))
        self.resume()

    def resume(self) -> None:
        message = run_step(self._steps)
        while isinstance(message, int):
            message = run_step(self._steps)
        assert decode_message(encode_message(message)) == message
        self.message.append(message)
        self.before_telling()
        self._on_message(message)

    def cancel(self) -> None:
        self._steps.close()

    def stop(self) -> None:
        return


def cleaner_for(
    store: LogStore,
    disk: Disk,
    clock: HandClock,
    *,
    stable: Callable[[TopicPartition], int] | None = None,
    worker: Worker | None = None,
    **settings: Any,
) -> Cleaner:
    broker = BrokerSettings({name.replace("_", "."): str(value) for name, value in settings.items()})
    stable = stable or (lambda place: stable_end(store, place))
    return Cleaner(store, clock, lambda: broker, stable, worker or AtOnce(disk))


def stable_end(store: LogStore, place: TopicPartition) -> int:
    """Return the last stable offset of a leader without followers."""
    log = store.logs[place]
    log.high_watermark_moved(log.durable_offset)
    first = log.first_unstable_offset
    return log.durable_offset if first is None else min(first, log.durable_offset)


def compact_all(
    store: LogStore,
    disk: Disk,
    clock: HandClock,
    *,
    passes: int = 3,
    **settings: Any,
) -> Cleaner:
    """Run all passes that are due."""
    cleaner = cleaner_for(store, disk, clock, **settings)
    for _ in range(passes):
        cleaner.find_work()
    return cleaner
