"""penstock sql: the cluster's metadata, and the records of topics, as SQL tables."""

import signal
import sys
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock.actions.connection import DEFAULT_BOOTSTRAP, BootstrapOption, reach
from penstock.cli.errors import CommandError
from penstock.cli.output import Format, show, write_rows
from penstock.actions.client_properties import security

if TYPE_CHECKING:
    from penstock.sqlview import Stream

TABLE_ROWS_MAX: Final = 10_000
TABLE_CELL_SIZE_MAX: Final = 4_000

EXAMPLE = (
    'Example: penstock sql "SELECT topic, sum(lag) AS lag FROM Lag GROUP BY topic"   '
    "penstock sql \"SELECT value->>'$.id' FROM topic('orders') WHERE timestamp > now() - INTERVAL 1 HOUR LIMIT 10\""
)


class SqlFormat(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    ARROW = "arrow"


def sql(
    query: Annotated[
        str, typer.Argument(help="One SELECT; '-' reads it from standard input.", show_default=False)
    ] = "",
    format: Annotated[
        SqlFormat, typer.Option("--format", help="How to print; arrow is an IPC stream for other programs.")
    ] = SqlFormat.TABLE,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0.1, help="Give up after so many seconds, the last row included.")
    ] = 60.0,
    memory_mib: Annotated[
        int, typer.Option("--memory", min=16, metavar="MIB", help="Memory for the query, in MiB; more ends it.")
    ] = 1024,
    tables: Annotated[bool, typer.Option("--tables", help="Show the tables and their columns.")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Ask the cluster with SQL. Reads only; every query sees the cluster as it is now."""
    if tables:
        _show_tables()
        return
    text = sys.stdin.read() if query == "-" else query
    if not text.strip():
        raise CommandError('There is no query: write for example penstock sql "SELECT name FROM Topic".')
    from penstock.sqlview import stream

    reach(bootstrap)
    # There is nothing to clean up: the process that runs the query ends when this one does.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with stream(
        text, bootstrap=bootstrap, timeout_s=timeout_s, memory_bytes=memory_mib * 1024 * 1024, settings=security()
    ) as rows:
        if format is SqlFormat.ARROW:
            _write_arrow(rows.arrow())
        elif format is SqlFormat.TABLE:
            _show_first(rows)
        else:
            write_rows(rows, rows.columns, Format(format.value), to=sys.stdout)


def _show_first(rows: "Stream") -> None:
    """A table needs all of its rows before the first can be printed, and nobody reads that many."""
    first = [
        {column: _shortened(value) for column, value in zip(rows.columns, row, strict=True)}
        for row in islice(rows, TABLE_ROWS_MAX)
    ]
    show(first, rows.columns, Format.TABLE)
    if len(first) == TABLE_ROWS_MAX and next(iter(rows), None) is not None:
        sys.stdout.flush()
        print(f"penstock: only the first {TABLE_ROWS_MAX:,} rows are shown; --format csv shows all", file=sys.stderr)


def _shortened(value: Any) -> Any:
    if isinstance(value, str | bytes) and len(value) > TABLE_CELL_SIZE_MAX:
        head = value[:TABLE_CELL_SIZE_MAX]
        return f"{head if isinstance(head, str) else head.hex()} ... ({len(value):,} in all)"
    return value


def _show_tables() -> None:
    from penstock.sqlview.tables import TABLES

    rows = [{"table": table.name, "columns": ", ".join(table.columns), "holds": table.doc} for table in TABLES]
    records = "topic, partition, offset, timestamp, timestamp_type, key, value, headers, key_bytes, value_bytes"
    rows.append({"table": "topic('NAME')", "columns": records, "holds": "The records of a topic; needs penstock[sql]."})
    show(rows, ["table", "columns", "holds"], Format.TABLE)


def _write_arrow(reader: Any) -> None:
    import pyarrow.ipc

    with pyarrow.ipc.new_stream(sys.stdout.buffer, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
