"""penstock sql: the cluster's metadata, and the records of topics, as SQL tables."""

import signal
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from penstock.cli.client import DEFAULT_BOOTSTRAP, BootstrapOption, reach
from penstock.cli.errors import CommandError
from penstock.cli.output import Format, show

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
    timeout_s: Annotated[float, typer.Option("--timeout", min=0.1, help="Give up after so many seconds.")] = 60.0,
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
    from penstock.sqlview import query as run

    reach(bootstrap)
    # The engines take an interrupt for an error of the query. There is nothing to clean up: let it end the command.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    result = run(text, bootstrap=bootstrap, timeout_s=timeout_s)
    if format is SqlFormat.ARROW:
        _write_arrow(result.arrow())
        return
    show(result.dicts(), result.columns, Format(format.value))


def _show_tables() -> None:
    from penstock.sqlview.tables import TABLES

    rows = [{"table": table.name, "columns": ", ".join(table.columns), "holds": table.doc} for table in TABLES]
    records = "topic, partition, offset, timestamp, timestamp_type, key, value, headers, key_bytes, value_bytes"
    rows.append({"table": "topic('NAME')", "columns": records, "holds": "The records of a topic; needs penstock[sql]."})
    show(rows, ["table", "columns", "holds"], Format.TABLE)


def _write_arrow(table: Any) -> None:
    import pyarrow.ipc

    with pyarrow.ipc.new_stream(sys.stdout.buffer, table.schema) as writer:
        writer.write_table(table)
