"""Tests of the limits derived from DuckDB's syntax trees."""

import json
from typing import Any

import pytest

from penstock.sqlview.pushdown import Bounds, Node, Range, TopicCall, topic_calls

duckdb = pytest.importorskip("duckdb")


def evaluate(node: Node, kind: str) -> int | None:
    """Evaluate only plain literals."""
    text = (node.get("literal") or {}).get("text")
    return int(text) if text is not None and text.isdigit() else None


def calls(sql: str) -> list[TopicCall]:
    connection = duckdb.connect(":memory:")
    try:
        rows: list[Any] = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    finally:
        connection.close()
    return topic_calls(json.loads(rows[0][0]), evaluate)


def bounds(where: str) -> Bounds:
    (call,) = calls(f"SELECT * FROM topic('orders') AS o WHERE {where}")
    return call.bounds


def test_comparisons_joined_by_and_limit_the_read() -> None:
    found = bounds('"offset" >= 5 AND o."offset" < 9 AND timestamp > 1000')
    assert found.offset == Range(5, 9)
    assert found.timestamp == Range(1000, None)


def test_a_comparison_may_have_the_constant_first() -> None:
    assert bounds('5 < "offset"').offset == Range(5, None)


def test_between_and_equality_bound_both_ends() -> None:
    assert bounds('"offset" BETWEEN 3 AND 4').offset == Range(3, 4)
    assert bounds("partition = 2").wants_partition(2)
    assert not bounds("partition = 2").wants_partition(1)


def test_a_list_of_partitions_excludes_the_others() -> None:
    found = bounds("partition IN (1, 3)")
    assert [index for index in range(5) if found.wants_partition(index)] == [1, 3]


@pytest.mark.parametrize(
    "where",
    [
        '"offset" > 5 OR partition = 1',
        'NOT "offset" > 5',
        '"offset" + 1 > 5',
        '"offset" > partition',
        '"offset" > (SELECT 5)',
        "key > 5",
    ],
)
def test_a_condition_that_need_not_hold_for_every_row_sets_no_limit(where: str) -> None:
    assert bounds(where) == Bounds()


def test_an_unqualified_column_sets_no_limit_if_two_topics_could_own_it() -> None:
    found = calls(
        "SELECT * FROM topic('a') x JOIN topic('b') y ON x.key = y.key WHERE \"offset\" > 5 AND y.partition = 1"
    )
    assert [call.name for call in found] == ["a", "b"]
    assert found[0].bounds == Bounds()
    assert found[1].bounds.partition == Range(1, 1)


def test_the_limits_of_a_subquery_apply_only_to_it() -> None:
    found = calls("SELECT * FROM (SELECT * FROM topic('a') WHERE partition = 0) WHERE partition = 7")
    assert [call.bounds.partition for call in found] == [Range(0, 0)]
