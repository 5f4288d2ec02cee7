from collections.abc import Mapping
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.actions.record_format import LineRecord
from penstock_console import scan as scan_module
from penstock_console.errors import ApiError
from penstock_console.log_reader import Log, parse_cursor, parse_partitions, render_cursor
from penstock_console.scan import Scan, Selection


def test_conditions_are_joined_and_quoted() -> None:
    condition = Selection("it's", "k'", "value = 1 -- comment").condition()
    assert "'it''s'" in condition
    assert "key = 'k'''" in condition
    assert condition.endswith("(\nvalue = 1 -- comment\n)")


def test_no_condition_is_empty() -> None:
    assert Selection().is_empty
    assert not Selection(text="x").is_empty


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(), True),
        (Selection(text="ell"), True),
        (Selection(text="key"), True),
        (Selection(text="other"), False),
        (Selection(key="my key"), True),
        (Selection(key="my"), False),
        (Selection(text="ell", key="other"), False),
    ],
)
def test_text_and_key_are_compared_plainly(selection: Selection, expected: bool) -> None:
    assert selection.matches_plainly(LineRecord(b"my key", b"hello")) is expected


def test_cursors_are_parsed_as_they_are_rendered() -> None:
    assert parse_cursor("after", render_cursor({1: 5, 0: 2**63 - 1})) == {0: 2**63 - 1, 1: 5}


@pytest.mark.parametrize("text", ["", "0", "0:", "a:1", "0:-1", "0:1,", "0:1;1:2", "0:99999999999999999999", "٠:١"])
def test_an_invalid_cursor_is_rejected(text: str) -> None:
    with pytest.raises(ApiError):
        parse_cursor("after", text)


@pytest.mark.parametrize("text", ["x", "-1", "1,", "1 2", "99999999999"])
def test_invalid_partitions_are_rejected(text: str) -> None:
    with pytest.raises(ApiError):
        parse_partitions(text)


def test_partitions_are_sorted_and_unique() -> None:
    assert parse_partitions("2,0,2") == [0, 2]
    assert parse_partitions("") is None


class FakeScan(Scan):
    """A search of records in memory."""

    def __init__(self, log: Log, records: list[tuple[int, int]]) -> None:
        super().__init__(None, log, Selection(text="x"), "read_committed")  # type: ignore[arg-type]
        self._records = records

    def _query(self, ranges: Mapping[int, range], count: int, *, is_newest_first: bool = False) -> list[LineRecord]:
        matching = sorted(
            ((offset, index) for index, offset in self._records if index in ranges and offset in ranges[index]),
            reverse=is_newest_first,
        )
        return [LineRecord(None, b"x", partition=index, offset=offset) for offset, index in matching[:count]]


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40)), unique=True),
    st.integers(1, 7),
    st.integers(1, 30),
    st.booleans(),
)
def test_pages_of_a_search_contain_every_match_once(
    records: list[tuple[int, int]], count: int, window: int, is_backward: bool
) -> None:
    log = Log("orders", {0: 0, 1: 5, 2: 0}, {0: 41, 1: 41, 2: 17}, None, None)  # type: ignore[arg-type]
    expected = sorted((index, offset) for index, offset in records if log.earliest[index] <= offset < log.latest[index])
    cursor = dict(log.latest if is_backward else log.earliest)
    edge = log.earliest if is_backward else log.latest
    found: list[tuple[int | None, int | None]] = []
    with patch.object(scan_module, "WINDOW_MIN", window):
        while cursor != edge:
            scan = FakeScan(log, records)
            page = 0
            for part in (scan.backward if is_backward else scan.forward)(cursor, count):
                found += [(record.partition, record.offset) for record in part.records]
                page += len(part.records)
                assert part.scanned == sum(abs(part.cursor[index] - cursor[index]) for index in cursor)
                cursor = part.cursor
            assert page <= count
    assert sorted(found) == expected
