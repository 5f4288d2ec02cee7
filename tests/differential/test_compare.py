"""Tests of the comparison, without a broker."""

from __future__ import annotations

from typing import Any

from tests.differential.batches import batch, summarise
from tests.differential.compare import compare, report
from tests.differential.entities import read_response, request_frame
from tests.differential.session import CLOSED, Step


def paths(left: Any, right: Any, label: str = "metadata v1") -> list[str]:
    return [one.path for one in compare("s", [Step(label, left)], [Step(label, right)])]


def test_ids_compare_by_the_order_in_which_they_appear() -> None:
    left = [{"topic_id": "a"}, {"topic_id": "b"}, {"topic_id": "a"}]
    assert paths(left, [{"topic_id": "x"}, {"topic_id": "y"}, {"topic_id": "x"}]) == []
    assert paths(left, [{"topic_id": "x"}, {"topic_id": "y"}, {"topic_id": "y"}]) == ["[2].topic_id"]


def test_items_with_names_are_paired_by_name_and_their_order_is_reported() -> None:
    left = {"topics": [{"name": "a", "n": 1}, {"name": "b", "n": 2}]}
    right = {"topics": [{"name": "b", "n": 3}, {"name": "a", "n": 1}]}
    assert paths(left, right) == ["topics order", "topics[b].n"]
    assert paths(left, right, label="produce v3") == ["topics[b].n"]


def test_a_closed_connection_is_not_a_response() -> None:
    assert paths(CLOSED, {"error_code": 0}) == ["outcome"]


def test_the_same_mismatch_in_many_steps_is_reported_once() -> None:
    left = [Step(f"fetch v{version}", {"x": 1}) for version in range(9)]
    right = [Step(f"fetch v{version}", {"x": 2}) for version in range(9)]
    text = report(compare("s", left, right))
    assert text.count("Kafka:") == 1
    assert "and 5 more" in text


def test_one_dictionary_fits_every_version_of_a_request() -> None:
    values = {"topics": [{"name": "t", "topic_id": None}], "allow_auto_topic_creation": False}
    assert len({request_frame("metadata", version, values) for version in range(14)}) == 14


def test_a_response_becomes_plain_values() -> None:
    answer = read_response("api_versions", 0, bytes.fromhex("00000007 0000 00000001 0012 0000 0004"))
    assert answer == {
        "error_code": "0 none",
        "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 4}],
        "correlation_id": 7,
    }


def test_batches_are_summarized_with_trailing_bytes() -> None:
    whole, rest = summarise(batch(3) + b"\0" * 9)
    assert (whole["count"], whole["crc_good"], whole["whole"]) == (3, True, True)
    assert rest == {"bytes_left_over": 9}
