import csv
import io
import json
from typing import Any

from penstock.cli.output import Format, show, with_units

ROWS = [
    {"topic": "orders", "partitions": 3, "isr": [1, 2], "internal": False, "left_out": 1},
    {"topic": "a [bold]name[/bold]", "partitions": 1, "isr": [], "internal": True},
]
COLUMNS = ["topic", "partitions", "isr", "internal", "leader"]


def rendered(format: Format) -> str:
    target = io.StringIO()
    show(ROWS, COLUMNS, format, to=target)
    return target.getvalue()


def test_json_keeps_types_and_the_chosen_columns() -> None:
    first = json.loads(rendered(Format.JSON))[0]
    assert first == {"topic": "orders", "partitions": 3, "isr": [1, 2], "internal": False, "leader": None}


def test_numbers_and_keys_that_json_lacks_are_replaced() -> None:
    target = io.StringIO()
    row = {"ratio": float("inf"), "parts": [1.5, float("nan")], "counts": {b"a\xff": {"mean": float("-inf")}, 7: 1}}
    show([row], list(row), Format.JSON, to=target)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    (shown,) = json.loads(target.getvalue(), parse_constant=refuse)
    assert shown == {"ratio": None, "parts": [1.5, None], "counts": {"a\\xFF": {"mean": None}, "7": 1}}


def test_csv_has_a_heading_and_a_line_per_row() -> None:
    lines = list(csv.reader(io.StringIO(rendered(Format.CSV))))
    assert lines[0] == COLUMNS
    assert lines[1] == ["orders", "3", "1,2", "no", ""]


def test_a_table_without_a_terminal_is_not_wrapped() -> None:
    lines = rendered(Format.TABLE).splitlines()
    assert lines[0].split() == COLUMNS
    assert lines[2].startswith("a [bold]name[/bold]")
    assert len(lines) == 3


def test_a_long_value_stays_on_its_line_in_a_pipe() -> None:
    target = io.StringIO()
    show([{"value": "x" * 5000}], ["value"], Format.TABLE, to=target)
    assert "x" * 5000 in target.getvalue()


def test_sizes_have_binary_units_and_are_aligned() -> None:
    rows: list[dict[str, Any]] = [{"size": 512}, {"size": 1536}, {"size": 5 * 1024**4}, {"size": None}]
    with_units(rows, ["size"])
    assert [row["size"] for row in rows] == ["  512 B", "1.5 KiB", "5.0 TiB", "      -"]
