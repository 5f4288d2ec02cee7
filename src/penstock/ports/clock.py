"""Time. Monotonic and wall time are apart: only intervals of the monotonic clock decide anything."""

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A call that has been asked for and can still be taken back."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    def monotonic(self) -> float:
        """Seconds that never go back; their zero means nothing."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970, as records carry them. May jump."""
        ...

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Call once on the event loop after the delay."""
        ...
