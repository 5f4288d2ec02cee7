"""Calls into C libraries, off the event loop.

Only for functions that release the interpreter lock: Python code in a thread would compete with the
event loop for it. Without this port such a call is made on the loop, as the simulator does.
"""

from collections.abc import Callable
from typing import Any, Protocol


class Offload(Protocol):
    def run(self, call: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        """Run a call off the event loop. `done` gets its result or its error, later and on the event loop."""
        ...

    def stop(self) -> None:
        """Run no further calls. One that is running is not waited for."""
        ...
