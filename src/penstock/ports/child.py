"""Child processes of this program: for work that would keep the event loop from its clients.

A child runs a module of this package and talks in lines. Everything is called on the event loop.
"""

from collections.abc import Callable
from typing import Protocol


class Child(Protocol):
    def send(self, line: bytes) -> None:
        """Send one line, which holds no line break."""
        ...

    def kill(self) -> None:
        """End it at once. Neither of its callbacks is called after this."""
        ...


class Children(Protocol):
    def spawn(self, module: str, on_line: Callable[[bytes], None], on_end: Callable[[str], None]) -> Child:
        """Start `python -m module`. `on_end` says why it ended, or why it did not start."""
        ...

    async def stop(self) -> None:
        """End all of them and wait until they are gone."""
        ...
