"""Tests of the decisions about offsets, without a broker or Spark."""

from __future__ import annotations

import pytest

from penstock_client.errors import DataLoss, PenstockClientError
from penstock_client.offsets import (
    Range,
    check_same_subscription,
    check_same_topics,
    check_within,
    from_json,
    gathered,
    limited,
    split,
    to_json,
)


def test_offsets_keep_the_connectors_form_and_the_topics_ids() -> None:
    offsets = {("b", 1): 5, ("a", 10): 1, ("a", 9): 2}
    text = to_json(offsets, {"a": "ID", "b": ""})
    assert text == {"#ids": {"a": "ID"}, "a": {"9": 2, "10": 1}, "b": {"1": 5}}
    assert from_json(text) == (offsets, {"a": "ID"})
    assert from_json({"a": {"0": 3}}) == ({("a", 0): 3}, {}), "offsets of Spark's connector are read too"


def test_offsets_of_another_source_are_rejected() -> None:
    with pytest.raises(PenstockClientError, match="not written by a penstock source"):
        from_json({"logOffset": 3})


def test_a_limit_is_distributed_by_the_backlog_of_each_partition() -> None:
    start = {("t", 0): 0, ("t", 1): 100, ("t", 2): 7}
    latest = {("t", 0): 900, ("t", 1): 200, ("t", 2): 7}
    assert limited(start, latest, 100) == {("t", 0): 90, ("t", 1): 110, ("t", 2): 7}
    assert limited(start, latest, 5000) == latest
    tiny = limited(start, {**latest, ("t", 1): 101}, 2)
    assert tiny == {("t", 0): 1, ("t", 1): 101, ("t", 2): 7}, "no partition starves"


def test_an_end_offset_that_decreases_never_moves_a_query_back() -> None:
    assert limited({("t", 0): 50}, {("t", 0): 40}, 10) == {("t", 0): 50}


def test_ranges_are_split_without_a_gap() -> None:
    pieces = split([Range("t", 0, 0, 1000), Range("t", 1, 5, 5), Range("t", 2, 0, 10)], count_least=8, rows_max=300)
    assert all(one.size <= 300 for one in pieces)
    first = [one for one in pieces if one.partition == 0]
    assert [one.start for one in first[1:]] == [one.end for one in first[:-1]]
    assert (first[0].start, first[-1].end) == (0, 1000)
    assert not [one for one in pieces if one.partition == 1]


def test_a_recreated_topic_is_detected_by_its_id() -> None:
    with pytest.raises(DataLoss, match="topic 'a' was deleted and recreated"):
        check_same_topics({"a": "1"}, {"a": "2"}, fail=True)
    assert check_same_topics({"a": "1", "b": "1"}, {"a": "2", "b": "1"}, fail=False) == {"a"}
    assert check_same_topics({"a": ""}, {"a": "2"}, fail=True) == set(), "an old broker gives no id"


def test_a_checkpoint_of_other_topics_is_rejected_but_a_wider_subscription_is_not() -> None:
    check_same_subscription({"a"}, {"a", "b"})
    with pytest.raises(PenstockClientError, match="separate checkpointLocation"):
        check_same_subscription({"a"}, {"b"})


def test_offsets_out_of_range_are_rejected_or_moved() -> None:
    where = ("t", 0)
    with pytest.raises(DataLoss, match=r"offset 3 of t-0 is out of range \(5 to 9\): 2 rows were removed"):
        check_within({where: 3}, {where: 5}, {where: 9}, fail=True)
    with pytest.raises(DataLoss, match="the log ends before it"):
        check_within({where: 10}, {where: 5}, {where: 9}, fail=True)
    assert check_within({where: 3}, {where: 5}, {where: 9}, fail=False) == {where: 5}
    assert check_within({where: 9}, {where: 5}, {where: 9}, fail=True) == {where: 9}


def test_small_adjacent_ranges_share_a_task_and_large_ones_do_not() -> None:
    ranges = [Range("t", index, 0, size) for index, size in enumerate((3, 3, 200, 500, 1))]
    assert [[one.partition for one in lot] for lot in gathered(ranges, rows_least=200)] == [[0, 1, 2], [3], [4]]
    assert [len(lot) for lot in gathered(ranges, rows_least=1)] == [1] * 5
    assert gathered([], rows_least=200) == []
