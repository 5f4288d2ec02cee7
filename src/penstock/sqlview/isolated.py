"""Runs a query in a separate process, which is killed at the deadline and whose memory is limited.

The engines run native code that does not always obey an interrupt or a limit: DuckDB computes one value of 2 GB to
its end. A process can always be killed. Starting one costs as much as importing the engines, so a process that has
completed a query is kept for the next, and `limit_children` bounds how many there are. Calls child.py. Raises
QueryError.
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
from threading import BoundedSemaphore, Lock, Timer
from typing import IO, Any, Final, NamedTuple

from penstock.sqlview import frames
from penstock.sqlview.errors import QueryError, TooManyQueries, too_much_memory, too_slow
from penstock.sqlview.frames import read_frame, write_frame
from penstock.sqlview.result import Cursor, Row, Stream

FilterRecord = tuple[Any, ...]
"""The columns of a record: topic, partition, offset, timestamp in ms, key, value, headers."""
RecordFilter = Callable[[Sequence[FilterRecord]], list[int]]
"""Returns the indexes of the records that fulfil a condition."""


class Filter(NamedTuple):
    """A condition on records, and the memory it may use."""

    condition: str
    memory_bytes: int


class Child:
    """A process that runs one query at a time."""

    def __init__(self, *, preload: bool = False) -> None:
        path = os.pathsep.join(entry for entry in sys.path if entry)
        # Arrow's allocator maps 1 GiB in advance, which would count towards the memory limit. Without the other two,
        # malloc keeps so much of each query that the process has to be replaced after every second one.
        more = {
            "PYTHONPATH": path,
            "ARROW_DEFAULT_MEMORY_POOL": "system",
            "MALLOC_ARENA_MAX": "2",
            "MALLOC_TRIM_THRESHOLD_": "65536",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "penstock.sqlview.child", *(["--preload"] if preload else [])],
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
        self.open_filter: Filter | None = None
        """The filter that waits for its next batch of records."""

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_ready(self) -> bool:
        """Wait for the process; close it if it has not started or has grown too much."""
        try:
            if self.open_filter is not None:
                self.open_filter = None
                self.send(frames.DONE)
                self.expect(frames.DONE)
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

    def filter(self, wanted: Filter, records: Sequence[FilterRecord], *, timeout_s: float) -> list[int]:
        """Return the indexes of the records that fulfil a condition, and keep the filter open for the next batch."""
        if self.open_filter != wanted:
            self._open(wanted, timeout_s)
        with self._deadline(timeout_s):
            self.send(frames.RECORDS, pickle.dumps(records, pickle.HIGHEST_PROTOCOL))
            piece = self.expect(frames.PIECE)
        assert piece is not None, "the filter answers until it is done"
        indexes: list[int] = pickle.loads(piece)
        return indexes

    def _open(self, wanted: Filter, timeout_s: float) -> None:
        self._timeout_s, self._memory_bytes, self._is_late = timeout_s, wanted.memory_bytes, False
        self.has_ended_well = False
        self.send(frames.FILTER, json.dumps(wanted._asdict()).encode())
        self.expect(frames.LOADED)
        with self._deadline(timeout_s):
            self.expect(frames.OPENED)
        self.open_filter = wanted

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
            if self._is_late:
                self.has_ended_well, self.open_filter = False, None

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
            self.has_ended_well, self.open_filter = True, None
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
        """End the process: an idle one exits when its standard input is closed, any other is killed."""
        with contextlib.suppress(OSError):
            self._requests.close()
        if (self.has_ended_well or self.open_filter is not None) and not self.is_killed:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(EXIT_S_MAX)
        self._process.kill()
        self._process.wait()
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
EXIT_S_MAX: Final = 2.0
"""How long an idle process may take to exit by itself."""
_idle: list[Child] = []
_turn = Lock()
_places: BoundedSemaphore | None = None


def limit_children(count: int) -> None:
    """Run at most this many processes at a time; further queries wait. The first call, before any query, counts."""
    global _places
    if _places is None:
        _places = BoundedSemaphore(count)


def prepare() -> None:
    """Start a process for the next query, which loads DuckDB in the background, unless there is one."""
    if _places is not None and not _places.acquire(blocking=False):
        return
    with _turn:
        if not _idle:
            _idle.append(Child(preload=True))
    _leave()


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
    wait_s: float | None = None,
) -> Iterator[Stream]:
    """Run a query; its timeout starts when the engine is loaded.

    `masks` are the paths of fields to hide, by topic. `began` is called with a function that stops the query from
    another thread. `wait_s` is how long to wait for a process while all are in use.
    """
    child = _take(wait_s=wait_s)
    try:
        began(child.kill)
        options = {"bootstrap": bootstrap, "settings": dict(settings), "masks": masks or {}}
        with child.run(sql, timeout_s=timeout_s, memory_bytes=memory_bytes, **options) as rows:
            yield rows
    finally:
        _give_back(child)


def open_filter(condition: str, *, timeout_s: float, memory_bytes: int, wait_s: float | None = None) -> RecordFilter:
    """Return a function that tests records with an SQL condition; the timeout is that of one batch.

    It uses a process only for the time of a batch, so a filter that waits for records leaves it to other queries.
    Raises QueryError if the condition is invalid.
    """
    wanted = Filter(condition, memory_bytes)

    def matching(records: Sequence[FilterRecord]) -> list[int]:
        child = _take(wanted, wait_s=wait_s)
        try:
            return child.filter(wanted, records, timeout_s=timeout_s)
        finally:
            _give_back(child)

    matching([])
    return matching


def _take(wanted: Filter | None = None, *, wait_s: float | None) -> Child:
    if _places is not None and not _places.acquire(timeout=wait_s):
        raise TooManyQueries("Too many queries are running: try again in some seconds.")
    try:
        return _take_child(wanted)
    except BaseException:
        _leave()
        raise


def _take_child(wanted: Filter | None) -> Child:
    with _turn:
        # One that has the filter open if possible, otherwise one without any.
        _idle.sort(key=lambda child: (child.open_filter == wanted, child.open_filter is None))
        waiting = _idle.pop() if _idle else None
    if waiting is not None:
        has_it_open = wanted is not None and waiting.open_filter == wanted
        if has_it_open or waiting.is_ready():
            return waiting
    child = Child()
    if not child.is_ready():
        raise QueryError(
            f"Cannot start a process for the query: run {sys.executable} -m penstock.sqlview.child to see why."
        )
    return child


def _give_back(child: Child) -> None:
    try:
        with _turn:
            is_usable = child.has_ended_well or child.open_filter is not None
            if is_usable and not child.is_killed and len(_idle) < IDLE_MAX:
                _idle.append(child)
                return
        child.close()
    finally:
        _leave()


def _leave() -> None:
    if _places is not None:
        _places.release()


def close_idle() -> None:
    """Stop the processes that wait for the next query."""
    with _turn:
        waiting, _idle[:] = list(_idle), []
    for child in waiting:
        child.close()


atexit.register(close_idle)
# A forked process must not share the pipes.
os.register_at_fork(after_in_child=_idle.clear)
