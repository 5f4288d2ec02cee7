"""Time. Monotonic and wall clock time are separate: only intervals of the monotonic clock decide anything."""

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A scheduled call that can be cancelled."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    def monotonic(self) -> float:
        """Return seconds that never go back, from an arbitrary zero."""
        ...

    def wall_ms(self) -> int:
        """Return milliseconds since 1970, as in records. May jump."""
        ...

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Call once on the event loop after the delay."""
        ...
