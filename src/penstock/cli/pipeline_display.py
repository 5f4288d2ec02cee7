"""The progress of a pipeline: a live table on a terminal, lines otherwise."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TextIO

from penstock_spark.pipelines.progress import FlowProgress

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

LINES_EVERY_S: Final = 5.0


class Display:
    """A context manager; pass the progress of the flows to `show`."""

    def __init__(self, title: str, to: TextIO | None = None) -> None:
        self._title = title
        self._to = to or sys.stdout
        self._live: Live | None = None
        self._printed: dict[str, tuple[str, int]] = {}
        self._printed_at = 0.0
        self._last: list[FlowProgress] = []

    def __enter__(self) -> Display:
        if self._to.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(file=self._to), refresh_per_second=4, transient=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
        else:
            self._lines(self._last, all_of_them=True)

    def show(self, flows: Sequence[FlowProgress]) -> None:
        self._last = list(flows)
        if self._live is not None:
            self._live.update(table(self._title, flows))
        elif time.monotonic() - self._printed_at >= LINES_EVERY_S:
            self._lines(flows, all_of_them=False)

    def _lines(self, flows: Sequence[FlowProgress], *, all_of_them: bool) -> None:
        """Print only flows that changed, so that an idle pipeline does not fill a log file."""
        self._printed_at = time.monotonic()
        for flow in flows:
            news = (flow.state, flow.batch)
            if self._printed.get(flow.name) != news or (all_of_them and not self._printed):
                self._printed[flow.name] = news
                print(line(flow), file=self._to, flush=True)


def line(flow: FlowProgress) -> str:
    parts = [f"{flow.name} -> {flow.target}: {flow.state}"]
    if flow.batch >= 0:
        parts.append(
            f"batch {flow.batch}, {flow.rows} rows, {flow.rows_per_s:.0f} rows/s, {flow.batch_ms / 1000:.1f} s"
        )
    if flow.lag is not None:
        parts.append(f"lag {flow.lag}")
    parts += [f"{name} {value}" for name, value in flow.counted.items()]
    if flow.error:
        parts.append(flow.error)
    return ", ".join(parts)


def table(title: str, flows: Sequence[FlowProgress]) -> Table:
    from rich.table import Table
    from rich.text import Text

    made = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    made.add_column("flow")
    made.add_column("to")
    made.add_column("state")
    for name in ("batch", "rows", "rows/s", "lag", "batch time"):
        made.add_column(name, justify="right")
    made.add_column("counted")
    colours = {"running": "green", "failed": "bold red", "finished": "cyan"}
    for flow in flows:
        counted = flow.error or ", ".join(f"{name} {value:,}" for name, value in flow.counted.items())
        made.add_row(
            flow.name,
            flow.target,
            Text(flow.state, style=colours.get(flow.state, "")),
            "-" if flow.batch < 0 else str(flow.batch),
            f"{flow.rows:,}",
            f"{flow.rows_per_s:,.0f}",
            "-" if flow.lag is None else f"{flow.lag:,}",
            f"{flow.batch_ms / 1000:.1f} s",
            Text(counted),
        )
    return made
