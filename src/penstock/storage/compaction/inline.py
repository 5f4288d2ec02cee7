"""Compaction passes on the event loop, in slices: for the simulator, and where there are no child processes."""

from collections.abc import Callable
from typing import Final

from penstock.model.errors import Corruption
from penstock.ports.clock import Clock, Timer
from penstock.ports.disk import Disk
from penstock.storage.compaction.rewrite import Steps, compact
from penstock.storage.compaction.task import CleanedGroup, Failed, Task, WorkerMessage

# Other work runs between slices, and syncs of the broker go first.
PAUSE_LEAST_S: Final = 0.001


class InlineWorker:
    """Runs one pass at a time."""

    def __init__(self, disk: Disk, clock: Clock) -> None:
        self._disk = disk
        self._clock = clock
        self._timer: Timer | None = None
        self._steps: Steps | None = None
        self._task: Task | None = None
        self._on_message: Callable[[WorkerMessage], None] = lambda message: None

    def start(self, task: Task, on_message: Callable[[WorkerMessage], None]) -> None:
        self._task, self._on_message = task, on_message
        self._steps = compact(self._disk, task)
        self._again(PAUSE_LEAST_S)

    def resume(self) -> None:
        self._again(PAUSE_LEAST_S)

    def cancel(self) -> None:
        self.stop()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._steps is not None:
            self._steps.close()
            self._steps = None

    def _again(self, delay_s: float) -> None:
        self._timer = self._clock.call_later(delay_s, self._slice)

    def _slice(self) -> None:
        self._timer = None
        assert self._steps is not None and self._task is not None, "the timer runs only during a pass"
        message = run_step(self._steps)
        if isinstance(message, int):
            self._again(max(message / self._task.bytes_per_second, PAUSE_LEAST_S))
            return
        if not isinstance(message, CleanedGroup):
            self._steps = None
        self._on_message(message)


def run_step(steps: Steps) -> int | WorkerMessage:
    """Run up to the next message, or to the next count of bytes."""
    try:
        return next(steps)
    except StopIteration as end:
        message: WorkerMessage = end.value
        return message
    except OSError as error:
        return Failed(why=str(error), errno=error.errno or 0)
    except Corruption as found:
        return Failed(why=str(found))
