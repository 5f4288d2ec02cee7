"""Passes on the event loop itself, a slice at a time: for the simulator, and where there are no child processes."""

from collections.abc import Callable
from typing import Final

from penstock.model.errors import Corruption
from penstock.ports.clock import Clock, Timer
from penstock.ports.disk import Disk
from penstock.storage.compaction.rewrite import Steps, compact
from penstock.storage.compaction.task import CleanedGroup, Failed, News, Task

# Between slices the loop has its turn, and syncs of the broker go first.
PAUSE_LEAST_S: Final = 0.001


class InlineWorker:
    """Makes one pass at a time."""

    def __init__(self, disk: Disk, clock: Clock) -> None:
        self._disk = disk
        self._clock = clock
        self._timer: Timer | None = None
        self._steps: Steps | None = None
        self._task: Task | None = None
        self._tell: Callable[[News], None] = lambda news: None

    def start(self, task: Task, tell: Callable[[News], None]) -> None:
        self._task, self._tell = task, tell
        self._steps = compact(self._disk, task)
        self._again(PAUSE_LEAST_S)

    def go_on(self) -> None:
        self._again(PAUSE_LEAST_S)

    def give_up(self) -> None:
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
        assert self._steps is not None and self._task is not None, "the timer goes with the pass"
        news = run_step(self._steps)
        if isinstance(news, int):
            self._again(max(news / self._task.bytes_per_second, PAUSE_LEAST_S))
            return
        if not isinstance(news, CleanedGroup):
            self._steps = None
        self._tell(news)


def run_step(steps: Steps) -> int | News:
    """Go on up to the next news, or to so many bytes."""
    try:
        return next(steps)
    except StopIteration as end:
        news: News = end.value
        return news
    except OSError as error:
        return Failed(why=str(error), errno=error.errno or 0)
    except Corruption as found:
        return Failed(why=str(found))
