"""Child processes on the operating system, and the child's side of the connection.

A child has a lower priority than its broker, and ends with the broker, even if that crashes.
"""

import asyncio
import contextlib
import os
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Iterator

_LINE_SIZE_MAX = 16 * 1024 * 1024
_NICENESS = 19
_REST_S_MAX = 0.1


class RealChild:
    def __init__(self, module: str, on_line: Callable[[bytes], None], on_end: Callable[[str], None]) -> None:
        self._module = module
        self._on_line = on_line
        self._on_end = on_end
        self._process: Process | None = None
        self._unsent: list[bytes] = []
        self._is_killed = False

    def send(self, line: bytes) -> None:
        if self._process is None:
            self._unsent.append(line)
        elif self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(line + b"\n")

    def kill(self) -> None:
        self._is_killed = True
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def run(self) -> None:
        """Run the process from its start to its end."""
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", self._module, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=_LINE_SIZE_MAX
            )
        except OSError as error:
            self._ended(f"cannot start a child process: {error}")
            return
        self._process = process
        if self._is_killed:
            self.kill()
        for line in self._unsent:
            self.send(line)
        self._unsent.clear()
        assert process.stdout is not None, "the process is started with a pipe"
        while line := await process.stdout.readline():
            if not self._is_killed:
                self._on_line(line.rstrip(b"\n"))
        code = await process.wait()
        if process.stdin is not None:
            process.stdin.close()
            with contextlib.suppress(OSError):
                await process.stdin.wait_closed()
        self._ended(f"the child process ended with {code}")

    def _ended(self, why: str) -> None:
        if not self._is_killed:
            self._on_end(why)


class RealChildren:
    """The children of one event loop."""

    def __init__(self) -> None:
        self._running: dict[asyncio.Task[None], RealChild] = {}

    def spawn(self, module: str, on_line: Callable[[bytes], None], on_end: Callable[[str], None]) -> RealChild:
        child = RealChild(module, on_line, on_end)
        task = asyncio.get_running_loop().create_task(child.run())
        self._running[task] = child
        task.add_done_callback(lambda done: self._running.pop(done, None))
        return child

    async def stop(self) -> None:
        for child in self._running.values():
            child.kill()
        await asyncio.gather(*self._running, return_exceptions=True)


# In the child


def lines_from_parent() -> Iterator[bytes]:
    """Lower the priority of this process, then yield the lines that the parent sends, until it is gone."""
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
    for line in sys.stdin.buffer:
        yield line.rstrip(b"\n")


def send_to_parent(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


class ParentWatch:
    """Ends this process when its parent has died: the work is no longer wanted, and its files might be in the way."""

    def __init__(self) -> None:
        self._parent = os.getppid()

    def look(self) -> None:
        if os.getppid() != self._parent:
            os._exit(1)


class Pace:
    """Limit of work to a rate in bytes, and to half of the time: the broker's syncs use the same disk."""

    def __init__(self, bytes_per_second: float) -> None:
        self._bytes_per_second = bytes_per_second
        self._begin = self._resumed = time.monotonic()
        self._done = 0

    def worked(self, size: int) -> None:
        """Rest after a step of `size` bytes for as long as it took, or longer if that was too fast."""
        self._done += size
        now = time.monotonic()
        ahead_s = self._done / self._bytes_per_second - (now - self._begin)
        time.sleep(max(ahead_s, min(now - self._resumed, _REST_S_MAX)))
        self._resumed = time.monotonic()
