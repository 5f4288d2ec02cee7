"""penstock sql: query the metadata of a cluster and the records of topics."""

import signal
import sys
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock.actions.connection import Connection, check_reachable
from penstock.cli.errors import CommandError
from penstock.cli.output import Format, show, write_rows

if TYPE_CHECKING:
    from penstock.sqlview import Stream

TABLE_ROWS_MAX: Final = 10_000
TABLE_CELL_SIZE_MAX: Final = 4_000

EXAMPLE = 'Example: penstock sql "SELECT topic, sum(lag) AS lag FROM Lag GROUP BY topic"'


class SqlFormat(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    ARROW = "arrow"


def sql(
    connection: Connection,
    query: Annotated[
        str, typer.Argument(help="A SELECT statement; '-' reads it from standard input.", show_default=False)
    ] = "",
    format: Annotated[
        SqlFormat, typer.Option("--format", help="Output format; arrow is an Arrow IPC stream.")
    ] = SqlFormat.TABLE,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="Time limit, including the output.")
    ] = 60.0,
    memory_mib: Annotated[
        int, typer.Option("--memory", min=16, metavar="MIB", help="Memory limit of the query in MiB.")
    ] = 1024,
    tables: Annotated[bool, typer.Option("--tables", help="List the tables and their columns.")] = False,
) -> None:
    """Query the cluster with SQL: its metadata, and records with FROM topic('NAME')."""
    if tables:
        _show_tables()
        return
    text = sys.stdin.read() if query == "-" else query
    if not text.strip():
        raise CommandError('The query is empty. Pass a SELECT statement, for example "SELECT name FROM Topic".')
    from penstock.sqlview import stream

    check_reachable(connection)
    # The process that runs the query ends with this one, so there is nothing to clean up.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with stream(
        text,
        bootstrap=connection.bootstrap,
        timeout_s=timeout_s,
        memory_bytes=memory_mib * 1024 * 1024,
        settings=connection.security,
    ) as rows:
        if format is SqlFormat.ARROW:
            _write_arrow(rows.arrow())
        elif format is SqlFormat.TABLE:
            _show_first(rows)
        else:
            write_rows(rows, rows.columns, Format(format.value), to=sys.stdout)


def _show_first(rows: "Stream") -> None:
    """Print the first rows as a table, which needs all rows before it can print one."""
    first = [
        {column: _shortened(value) for column, value in zip(rows.columns, row, strict=True)}
        for row in islice(rows, TABLE_ROWS_MAX)
    ]
    show(first, rows.columns, Format.TABLE)
    if len(first) == TABLE_ROWS_MAX and next(iter(rows), None) is not None:
        sys.stdout.flush()
        print(f"penstock: only the first {TABLE_ROWS_MAX:,} rows are shown; use --format csv for all", file=sys.stderr)


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
