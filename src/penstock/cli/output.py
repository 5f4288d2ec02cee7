"""Rows as a table, JSON or CSV.

A row is a mapping. The caller names the columns, so that all formats have the same fields in the same order. JSON
keeps numbers and lists.
"""

import csv
import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, TextIO

import typer

Row = Mapping[str, Any]
# Bytes that SQL engines escape.
_UNREADABLE = re.compile(rb"[^ !#-&(-\[\]-~]")


class Format(StrEnum):
    """Output formats of commands."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


FormatOption = Annotated[Format, typer.Option("--format", help="Output format.")]


def show(rows: Sequence[Row], columns: Sequence[str], format: Format, *, to: TextIO | None = None) -> None:
    """Print the rows to standard output."""
    target = to or sys.stdout
    if format is Format.TABLE:
        _show_table(rows, columns, target)
    else:
        write_rows(([row.get(column) for column in columns] for row in rows), columns, format, to=target)


def write_rows(rows: Iterable[Sequence[Any]], columns: Sequence[str], format: Format, *, to: TextIO) -> None:
    """Write rows as JSON or CSV while they arrive."""
    if format is Format.CSV:
        writer = csv.writer(to, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(value, absent="") for value in row] for row in rows)
        return
    separator = "\n"
    to.write("[")
    for row in rows:
        text = _json(dict(zip(columns, row, strict=True)))
        to.write(f"{separator}{text}".replace("\n", "\n  "))
        separator = ",\n"
    to.write("]\n" if separator == "\n" else "\n]\n")


def with_units(rows: Sequence[dict[str, Any]], columns: Iterable[str]) -> None:
    """Replace byte counts by numbers with a unit, aligned to the right."""
    for column in columns:
        texts = ["-" if row[column] is None else render_size(row[column]) for row in rows]
        width = max(map(len, texts), default=0)
        for row, text in zip(rows, texts, strict=True):
            row[column] = text.rjust(width)


def render_size(size: float) -> str:
    """Render a byte count with a binary unit: 512 B, 1.5 KiB."""
    if size < 1024:
        return f"{size:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} TiB"


def _json(row: Row) -> str:
    try:
        return json.dumps(row, indent=2, default=_json_value, allow_nan=False)
    except (TypeError, ValueError):
        return json.dumps(_in_json(row), indent=2, default=_json_value, allow_nan=False)


def _in_json(value: Any) -> Any:
    """Replace what JSON lacks: NaN and infinite numbers by null, and keys that are not text by text."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {
                key if isinstance(key, str) else _cell(key, absent=""): _in_json(each) for key, each in value.items()
            }
        case list() | tuple():
            return [_in_json(each) for each in value]
        case _:
            return value


def _json_value(value: object) -> str:
    return _cell(value, absent="")


def _show_table(rows: Sequence[Row], columns: Sequence[str], target: TextIO) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        numbers = [isinstance(row.get(column), int | float) for row in rows]
        table.add_column(column.replace("_", " "), justify="right" if any(numbers) else "left", overflow="fold")
    for row in rows:
        # Text, not str: rich parses square brackets in a str as markup.
        table.add_row(*(Text(_cell(row.get(column), absent="-")) for column in columns))
    # Without a terminal, never wrap lines.
    Console(file=target, width=None if target.isatty() else 1_000_000).print(table)


def _cell(value: object, *, absent: str) -> str:
    if value is None:
        return absent
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    if isinstance(value, bytes):
        return _UNREADABLE.sub(lambda byte: b"\\x%02X" % ord(byte[0]), value).decode()
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)
