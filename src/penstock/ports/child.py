"""Child processes of this program, for work that would block the event loop.

A child runs a module of this package and communicates in lines. Every call and callback is on the event loop.
"""

from collections.abc import Callable
from typing import Protocol


class Child(Protocol):
    def send(self, line: bytes) -> None:
        """Send one line, which contains no line break."""
        ...

    def kill(self) -> None:
        """Kill the process. None of its callbacks is called after this."""
        ...


class Children(Protocol):
    def spawn(self, module: str, on_line: Callable[[bytes], None], on_end: Callable[[str], None]) -> Child:
        """Start `python -m module`. `on_end` is called with the reason when it ends or cannot be started."""
        ...

    async def stop(self) -> None:
        """Kill all children and wait until they have ended."""
        ...
