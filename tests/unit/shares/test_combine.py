"""The merge of written ranges, compared with a merge of single offsets."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.shares.combine import combine
from penstock.shares.states import StateRange


@st.composite
def _ranges(draw: st.DrawFn) -> list[StateRange]:
    found = []
    for _ in range(draw(st.integers(0, 8))):
        first = draw(st.integers(0, 30))
        last = first + draw(st.integers(0, 8))
        found.append(StateRange(first, last, draw(st.sampled_from([0, 2, 3, 4])), draw(st.integers(0, 3))))
    return found


def _by_offset(ranges: list[StateRange], start: int) -> dict[int, tuple[int, int]]:
    winners: dict[int, tuple[int, int]] = {}
    for first, last, state, count in ranges:
        for offset in range(max(first, start), last + 1):
            winners[offset] = max(winners.get(offset, (-1, -1)), (count, state))
    return winners


@given(_ranges(), _ranges(), st.integers(0, 35))
def test_each_offset_gets_the_higher_count_then_the_higher_state(
    before: list[StateRange], added: list[StateRange], start: int
) -> None:
    merged = combine(combine([], before, start_offset=0), added, start_offset=start)
    assert _by_offset(list(merged), 0) == _by_offset(before + added, start)
    for left, right in pairwise(merged):
        assert left.last < right.first
        assert left.last + 1 < right.first or left[2:] != right[2:], "like neighbours are joined"


@given(_ranges(), _ranges())
def test_the_order_of_writes_does_not_matter(one: list[StateRange], other: list[StateRange]) -> None:
    assert combine(combine([], one, start_offset=0), other, start_offset=0) == combine(
        combine([], other, start_offset=0), one, start_offset=0
    )
