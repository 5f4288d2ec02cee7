"""What `penstock demo` prints: its steps with the elapsed time, a status line, and results as a table.

Something is printed at least every QUIET_S_MAX seconds. On a terminal the status line is overwritten in place.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

QUIET_S_MAX: Final = 3.0
ROWS_MAX: Final = 24
_CLEAR: Final = "\r\x1b[K"


class DemoDisplay:
    """Prints to standard output, and remembers when it last did."""

    def __init__(self) -> None:
        self._began = self._printed_at = time.monotonic()
        self._is_terminal = sys.stdout.isatty()
        self._is_status_shown = False
        self._is_in_table = False
        self._is_explained = False

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began

    @property
    def is_quiet(self) -> bool:
        """Whether it is time for a status line."""
        return time.monotonic() - self._printed_at >= (1.0 if self._is_terminal else QUIET_S_MAX)

    def line(self, text: str) -> None:
        """Print a line as it is."""
        self._print(text)
        self._is_in_table = False

    def say(self, text: str) -> None:
        """Print a step, with the time since the start."""
        self.line(f"[demo {self.elapsed_s:3.0f} s] {text}")

    def status(self, text: str) -> None:
        """Print the state: on a terminal as a line that the next output replaces."""
        if not self._is_terminal:
            self.say(text)
            return
        self._print(f"[demo {self.elapsed_s:3.0f} s] {text}", end="")
        self._is_status_shown = True

    def results(self, values: Sequence[Mapping[str, Any]]) -> None:
        """Print windows in the order of time, and only the last ones if there are many."""
        ordered = sorted(values, key=lambda value: (value["from"], value["country"]))
        if not self._is_explained:
            self._print("results of the pipeline: orders and sales by country, in windows of 10 s of event time")
            self._is_explained = True
        if not self._is_in_table or len(ordered) > ROWS_MAX:
            self._print("  window (UTC)          country   orders         sales")
        if len(ordered) > ROWS_MAX:
            self._print(f"  ... {len(ordered) - ROWS_MAX} earlier results, from {_clock(ordered[0]['from'])} on")
        for value in ordered[-ROWS_MAX:]:
            window = f"{_clock(value['from'])} - {_clock(value['to'])}"
            self._print(f"  {window}   {value['country']:<8} {value['orders']:>7} {value['amount']:>13,.2f}")
        self._is_in_table = True

    def _print(self, text: str, end: str = "\n") -> None:
        print((_CLEAR if self._is_status_shown else "") + text, end=end, flush=True)
        self._is_status_shown = False
        self._printed_at = time.monotonic()


def _clock(text: str) -> str:
    return datetime.fromisoformat(text).strftime("%H:%M:%S")
