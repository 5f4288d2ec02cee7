"""Keys of share partitions as text."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.keys import partition_of
from penstock.shares.keys import coordinator_key, parse_key
from penstock.shares.states import SharePartitionKey


@given(st.builds(SharePartitionKey, st.text(min_size=1), st.uuids(), st.integers(0, 2**31 - 1)))
def test_a_key_survives(key: SharePartitionKey) -> None:
    assert parse_key(coordinator_key(key)) == key


def test_the_partition_is_that_of_kafka() -> None:
    key = SharePartitionKey("g", UUID("00000000-0000-0000-0000-000000000001"), 0)
    assert coordinator_key(key) == "g:AAAAAAAAAAAAAAAAAAAAAQ:0"
    assert 0 <= partition_of(coordinator_key(key), 50) < 50


@pytest.mark.parametrize(
    "text", ["", "g", "g:1", "g:AAAA:0", "g:AAAAAAAAAAAAAAAAAAAAAQ:x", ":AAAAAAAAAAAAAAAAAAAAAQ:0"]
)
def test_other_texts_are_not_keys(text: str) -> None:
    assert parse_key(text) is None
