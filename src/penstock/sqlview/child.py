"""The process that runs queries and filters, one by one: `python -m penstock.sqlview.child`, started by isolated.py.

It reads frames from standard input and responds on standard output (frames.py). It exits when standard input is
closed, even during a query: the parent is gone. Calls metadata_engine.py, record_engine.py and record_filter.py.
"""

import contextlib
import json
import os
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any

from penstock.actions.cluster_client import ClusterClient
from penstock.actions.connection import Connection
from penstock.sqlview import frames, metadata_engine
from penstock.sqlview.choice import reads_records
from penstock.sqlview.errors import QueryError, too_much_memory
from penstock.sqlview.frames import read_frame, write_frame
from penstock.sqlview.memory import MIB, has_grown
from penstock.sqlview.result import Stream

Commands = SimpleQueue[tuple[bytes, bytes]]


class WithoutPandas:
    """An import finder that hides pandas.

    PyArrow and DuckDB import it if it is installed, to recognise its types. No query has any, and it costs each
    process 45 MB and most of the time of its first query.
    """

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is hidden from queries", name=name)


def main() -> None:
    sys.meta_path.insert(0, WithoutPandas())
    out = os.fdopen(os.dup(1), "wb")
    # Output of a library must not get between the frames.
    os.dup2(2, 1)
    commands: Commands = SimpleQueue()
    Thread(target=_read, args=(sys.stdin.buffer, commands), daemon=True).start()
    if "--preload" in sys.argv[1:]:
        # Without DuckDB, the query that needs it reports that.
        with contextlib.suppress(QueryError):
            _warm_up()
    while not has_grown():
        write_frame(out, frames.HELLO)
        kind, content = commands.get()
        assert kind in (frames.QUERY, frames.FILTER), "the rows of a query are read once"
        serve = _answer_query if kind == frames.QUERY else _filter_records
        _serve(partial(serve, json.loads(content), commands, out), json.loads(content)["memory_bytes"], out)
    # The thread blocks on standard input, so the interpreter could not close it.
    os._exit(0)


def _warm_up() -> None:
    """Load DuckDB and everything that it loads for its first query."""
    from penstock.sqlview import record_filter

    with record_filter.open_filter("value->>'$.a' = ''", 256 * MIB):
        pass


def _read(pipe: IO[bytes], commands: Commands) -> None:
    try:
        while True:
            commands.put(read_frame(pipe))
    except frames.Closed:
        os._exit(0)


def _serve(serve: Callable[[], None], memory_bytes: int, out: IO[bytes]) -> None:
    try:
        serve()
        write_frame(out, frames.END)
    except MemoryError:
        write_frame(out, frames.FAILED, _pickled(too_much_memory(memory_bytes)))
    except Exception as error:
        write_frame(out, frames.FAILED, _pickled(error))


def _answer_query(options: Mapping[str, Any], commands: Commands, out: IO[bytes]) -> None:
    query = _prepare(**options)
    write_frame(out, frames.LOADED)
    with query as rows:
        write_frame(out, frames.OPENED, b"1" if rows.has_arrow else b"")
        kind, _ = commands.get()
        if kind == frames.ARROW:
            _send_arrow(rows, out)
        else:
            _send_rows(rows, out)


def _filter_records(options: Mapping[str, Any], commands: Commands, out: IO[bytes]) -> None:
    from penstock.sqlview import record_filter

    write_frame(out, frames.LOADED)
    with record_filter.open_filter(**options) as matching:
        write_frame(out, frames.OPENED)
        while True:
            kind, content = commands.get()
            if kind != frames.RECORDS:
                return
            write_frame(out, frames.PIECE, pickle.dumps(matching(pickle.loads(content))))


def _prepare(
    sql: str, bootstrap: str, settings: Mapping[str, str], memory_bytes: int, masks: Mapping[str, Sequence[str]]
) -> AbstractContextManager[Stream]:
    """Choose and load the engine. Nothing runs before the context is entered."""
    if reads_records(sql):
        from penstock.sqlview import record_engine

        return record_engine.run(sql, bootstrap, settings, memory_bytes=memory_bytes, masks=masks)
    return metadata_engine.run(sql, partial(ClusterClient, Connection(bootstrap, settings)), memory_bytes=memory_bytes)


def _send_rows(rows: Stream, out: IO[bytes]) -> None:
    write_frame(out, frames.COLUMNS, json.dumps(rows.columns).encode())
    for piece in rows.pieces():
        write_frame(out, frames.PIECE, pickle.dumps(piece, pickle.HIGHEST_PROTOCOL))


def _send_arrow(rows: Stream, out: IO[bytes]) -> None:
    import pyarrow

    class Sink:
        """A file whose writes become frames."""

        closed = False

        def write(self, part: Any) -> int:
            view = memoryview(part).cast("B")
            write_frame(out, frames.BYTES, view)
            return len(view)

        def flush(self) -> None: ...

        def close(self) -> None: ...

    reader = rows.arrow()
    with pyarrow.ipc.new_stream(pyarrow.PythonFile(Sink(), "w"), reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)


def _pickled(error: Exception) -> bytes:
    try:
        pickled = pickle.dumps(error)
        pickle.loads(pickled)
    except Exception:
        return pickle.dumps(QueryError(f"The query cannot be run: {error}"))
    return pickled


if __name__ == "__main__":
    main()
