"""Runs a query in a separate process, which is killed at the deadline and whose memory is limited.

The engines run native code that does not always obey an interrupt or a limit: DuckDB computes one value of 2 GB to
its end. A process can always be killed. Starting one costs as much as importing the engines, so a process that has
completed a query is kept for the next. Calls child.py. Raises QueryError.
"""

import atexit
import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock, Timer
from typing import IO, Any, Final

from penstock.sqlview import frames
from penstock.sqlview.errors import QueryError, too_much_memory, too_slow
from penstock.sqlview.frames import read_frame, write_frame
from penstock.sqlview.result import Cursor, Row, Stream

FilterRecord = tuple[Any, ...]
"""The columns of a record: topic, partition, offset, timestamp in ms, key, value, headers."""
RecordFilter = Callable[[Sequence[FilterRecord]], list[int]]
"""Returns the indexes of the records that fulfil a condition."""


class Child:
    """A process that runs one query at a time."""

    def __init__(self) -> None:
        path = os.pathsep.join(entry for entry in sys.path if entry)
        # Arrow's allocator maps 1 GiB in advance, which would count towards the memory limit.
        more = {"PYTHONPATH": path, "ARROW_DEFAULT_MEMORY_POOL": "system"}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "penstock.sqlview.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | more,
            # The caller handles an interrupt from the terminal; this process exits with it.
            start_new_session=True,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._requests: IO[bytes] = self._process.stdin
        self._answers: IO[bytes] = self._process.stdout
        self._timeout_s, self._memory_bytes = 0.0, 0
        self._is_late = False
        self.is_killed = False
        self.has_ended_well = True
        """Whether the last query was completed, so that the next one can follow."""

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_ready(self) -> bool:
        """Wait for the process; close it if it has not started or has grown too much."""
        try:
            self.expect(frames.HELLO)
        except BaseException as error:
            self.close()
            if not isinstance(error, QueryError):
                raise
            return False
        return True

    @contextmanager
    def run(self, sql: str, *, timeout_s: float, memory_bytes: int, **options: Any) -> Iterator[Stream]:
        self._timeout_s, self._memory_bytes, self._is_late = timeout_s, memory_bytes, False
        self.has_ended_well = False
        self.send(frames.QUERY, json.dumps({"sql": sql, "memory_bytes": memory_bytes, **options}).encode())
        self.expect(frames.LOADED)
        with self._deadline(timeout_s):
            has_arrow = bool(self.expect(frames.OPENED))
            yield Stream(self._rows, self._arrow if has_arrow else None)

    @contextmanager
    def run_filter(self, condition: str, *, timeout_s: float, memory_bytes: int) -> Iterator["RecordFilter"]:
        self._timeout_s, self._memory_bytes, self._is_late = timeout_s, memory_bytes, False
        self.has_ended_well = False
        self.send(frames.FILTER, json.dumps({"condition": condition, "memory_bytes": memory_bytes}).encode())
        self.expect(frames.LOADED)
        with self._deadline(timeout_s):
            self.expect(frames.OPENED)

        def matching(records: Sequence[FilterRecord]) -> list[int]:
            with self._deadline(timeout_s):
                self.send(frames.RECORDS, pickle.dumps(records, pickle.HIGHEST_PROTOCOL))
                piece = self.expect(frames.PIECE)
            assert piece is not None, "the filter answers until it is done"
            indexes: list[int] = pickle.loads(piece)
            return indexes

        yield matching
        self.send(frames.DONE)
        self.expect(frames.DONE)

    @contextmanager
    def _deadline(self, timeout_s: float) -> Iterator[None]:
        """Kill the process if the block takes longer than this."""
        watch = Timer(timeout_s, self._give_up)
        watch.daemon = True
        watch.start()
        try:
            yield
        finally:
            watch.cancel()
            watch.join()
            self.has_ended_well &= not self._is_late

    def _give_up(self) -> None:
        self._is_late = True
        self._process.kill()

    def kill(self) -> None:
        """Stop the query. May be called from any thread."""
        self.is_killed = True
        self._process.kill()

    def _rows(self) -> Cursor:
        self.send(frames.ROWS)
        columns: list[str] = json.loads(self.expect(frames.COLUMNS) or b"[]")

        def fetch(count: int) -> list[Row]:
            piece = self.expect(frames.PIECE)
            return pickle.loads(piece) if piece is not None else []

        return Cursor(columns, fetch)

    def _arrow(self, size: int) -> Any:
        import pyarrow

        self.send(frames.ARROW)
        return pyarrow.ipc.open_stream(pyarrow.PythonFile(_Source(self), "r"))

    def send(self, kind: bytes, content: bytes = b"") -> None:
        try:
            write_frame(self._requests, kind, content)
        except OSError:
            raise self._gone() from None

    def expect(self, kind: bytes) -> bytes | None:
        """Return the content of the next frame, or None at the end of the rows."""
        if self.has_ended_well and kind in (frames.PIECE, frames.BYTES):
            return None
        try:
            found, content = read_frame(self._answers)
        except (frames.Closed, OSError, ValueError):
            raise self._gone() from None
        if found == frames.FAILED:
            self.has_ended_well = True
            raise pickle.loads(content)
        if found == frames.END:
            self.has_ended_well = True
            return None
        assert found == kind, f"expected {kind!r}, not {found!r}"
        return content

    def _gone(self) -> QueryError:
        """Return an error that explains the missing response."""
        code = self._process.wait()
        if self.is_killed:
            return QueryError("The query was stopped.")
        if self._is_late:
            return too_slow(self._timeout_s)
        if code in (-signal.SIGABRT, -signal.SIGKILL):
            # An allocation failed at an unexpected point, or the kernel's OOM killer acted.
            return too_much_memory(self._memory_bytes)
        how = f"signal {-code}" if code < 0 else f"code {code}"
        return QueryError(f"The process that ran the query ended with {how}: try again, or report the query.")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError):
            self._requests.close()
        self._answers.close()


class _Source:
    """The Arrow IPC stream in the frames, as a file."""

    closed = False

    def __init__(self, child: Child) -> None:
        self._child = child
        self._left = memoryview(b"")

    def read(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            if not self._left:
                content = self._child.expect(frames.BYTES)
                if content is None:
                    break
                self._left = memoryview(content)
            part = self._left[: size - len(found)]
            found += part
            self._left = self._left[len(part) :]
        return bytes(found)

    def close(self) -> None: ...


IDLE_MAX: Final = 2
_idle: list[Child] = []
_turn = Lock()


@contextmanager
def run(
    sql: str,
    *,
    bootstrap: str,
    settings: Mapping[str, str],
    timeout_s: float,
    memory_bytes: int,
    masks: Mapping[str, Sequence[str]] | None = None,
    began: Callable[[Callable[[], None]], None] = lambda stop: None,
) -> Iterator[Stream]:
    """Run a query; its timeout starts when the engine is loaded.

    `masks` are the paths of fields to hide, by topic. `began` is called with a function that stops the query from
    another thread.
    """
    child = _take()
    began(child.kill)
    try:
        options = {"bootstrap": bootstrap, "settings": dict(settings), "masks": masks or {}}
        with child.run(sql, timeout_s=timeout_s, memory_bytes=memory_bytes, **options) as rows:
            yield rows
    finally:
        _give_back(child)


@contextmanager
def run_filter(condition: str, *, timeout_s: float, memory_bytes: int) -> Iterator[RecordFilter]:
    """Test records with an SQL condition, batch by batch; the timeout is that of one batch."""
    child = _take()
    try:
        with child.run_filter(condition, timeout_s=timeout_s, memory_bytes=memory_bytes) as matching:
            yield matching
    finally:
        _give_back(child)


def _take() -> Child:
    with _turn:
        waiting = _idle.pop() if _idle else None
    if waiting is not None and waiting.is_ready():
        return waiting
    child = Child()
    if not child.is_ready():
        raise QueryError(
            f"Cannot start a process for the query: run {sys.executable} -m penstock.sqlview.child to see why."
        )
    return child


def _give_back(child: Child) -> None:
    with _turn:
        if child.has_ended_well and not child.is_killed and len(_idle) < IDLE_MAX:
            _idle.append(child)
            return
    child.close()


def close_idle() -> None:
    """Stop the processes that wait for the next query."""
    with _turn:
        waiting, _idle[:] = list(_idle), []
    for child in waiting:
        child.close()


atexit.register(close_idle)
# A forked process must not share the pipes.
os.register_at_fork(after_in_child=_idle.clear)
