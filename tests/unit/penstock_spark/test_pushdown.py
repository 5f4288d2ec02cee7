"""Tests of the limits derived from filters."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'penstock[spark]'")

from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from penstock_spark.topics.pushdown import bounds_of


def test_offsets_are_narrowed_from_both_sides() -> None:
    offset = ("offset",)
    bounds = bounds_of([GreaterThan(offset, 9), GreaterThanOrEqual(offset, 5), LessThanOrEqual(offset, 20)])
    assert bounds.narrow(0, 100) == (10, 21)
    assert bounds.narrow(15, 18) == (15, 18)
    assert bounds.narrow(50, 60) == (50, 50), "nothing is left"
    assert bounds_of([EqualTo(offset, 7), LessThan(offset, 9)]).narrow(0, 100) == (7, 8)


def test_partitions_and_topics_are_chosen() -> None:
    bounds = bounds_of([In(("partition",), (1, 2)), EqualTo(("partition",), 2), EqualTo(("topic",), "a")])
    assert bounds.allows("a", 2)
    assert not bounds.allows("a", 1) and not bounds.allows("b", 2)


def test_only_the_lower_bound_of_time_narrows() -> None:
    at = datetime(2020, 1, 1, tzinfo=UTC)
    assert bounds_of([GreaterThanOrEqual(("timestamp",), at)]).timestamp_least == 1_577_836_800_000
    assert bounds_of([LessThan(("timestamp",), at)]).timestamp_least is None


def test_an_unknown_filter_narrows_nothing() -> None:
    filters = [IsNotNull(("offset",)), Not(EqualTo(("partition",), 1)), EqualTo(("key",), b"x")]
    bounds = bounds_of(filters)
    assert bounds.narrow(3, 9) == (3, 9) and bounds.allows("any", 1)
    assert bounds.unused == filters
