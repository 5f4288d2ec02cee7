"""A progress line on stderr. Nothing is shown for short work or without a terminal."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

SILENT_S = 1.0
EVERY_S = 0.2


class Progress:
    """Counts bytes and records; draws after a second, and only on a terminal."""

    def __init__(self, what: str, *, total: int | None, shown: bool) -> None:
        self._what = what
        self._total = total
        self._shown = shown and sys.stderr.isatty()
        self._size = 0
        self._next_draw = time.monotonic() + SILENT_S
        self._bar: RichProgress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, size: int, *, done: int) -> None:
        """Add `size` bytes; `done` is the total number of records."""
        self._size += size
        if not self._shown or done % 64 or time.monotonic() < self._next_draw:
            return
        self._next_draw = time.monotonic() + EVERY_S
        if self._bar is None:
            self._start()
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._size, records=f"{done:,} records")

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TextColumn("{task.fields[records]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(self._what, total=self._total, records="")
        self._bar.start()
