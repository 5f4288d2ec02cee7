"""Advice about a skewed topic: each cause has its next step."""

import pytest

from penstock.actions.skew.advice import KeyShare, Observed, advise, render_key

UNEVEN = Observed(imbalance=3.0, partition_count=4, sampled=1000, keyless=0, distinct_keys=500, heavy=())


@pytest.mark.parametrize("seen", (UNEVEN._replace(imbalance=1.2), UNEVEN._replace(partition_count=1)))
def test_an_even_topic_needs_nothing(seen: Observed) -> None:
    assert advise(seen) == ["Nothing to do: the load is spread evenly over the partitions."]


def test_a_hot_key_is_named_with_its_share() -> None:
    (advice,) = advise(UNEVEN._replace(heavy=(KeyShare(b"eu", 2, 0.6), KeyShare(b"us", 1, 0.01))))
    assert advice.startswith("Key 'eu' has 60% of the records; an even share is 25%. Salt it")
    assert "for example 'eu#0'" in advice


@pytest.mark.parametrize(
    ("seen", "start"),
    [
        (UNEVEN, "No single key causes the skew. Check that all producers use the same partitioner"),
        (UNEVEN._replace(distinct_keys=7), "There are only 7 keys for 4 partitions."),
        (UNEVEN._replace(keyless=1000, distinct_keys=0), "Most records have no key"),
        (UNEVEN._replace(sampled=0, distinct_keys=0), "The load is uneven, but no recent record could be read"),
    ],
)
def test_each_cause_has_its_advice(seen: Observed, start: str) -> None:
    (advice,) = advise(seen)
    assert advice.startswith(start)


def test_a_long_or_binary_key_is_readable() -> None:
    assert render_key(b"\xff\x00") == "'\\\\xff\\x00'"
    assert render_key(b"x" * 100) == repr("x" * 57 + "...")
