"""Checks that the handlers of share groups have in common."""

from typing import Any, NamedTuple

import pytest

from penstock.handlers.support.share_requests import (
    BATCH_COUNT_MAX,
    TYPE_COUNT_MAX,
    check_length,
    check_member,
    read_batches,
)
from penstock.model.errors import InvalidRequest
from penstock.shares.sessions import PARTITION_COUNT_MAX
from penstock.wire.frame import MalformedRequest


class Batch(NamedTuple):
    first_offset: int
    last_offset: int
    acknowledge_types: tuple[int, ...]


def test_batches_are_read_with_one_type_or_one_for_each_offset() -> None:
    batches: Any = [Batch(0, 4, (1,)), Batch(5, 6, (2, 3))]
    assert read_batches(batches, version=1, is_renewal=False) == [(0, 4, (1,)), (5, 6, (2, 3))]


@pytest.mark.parametrize(
    "batches",
    [
        [Batch(4, 3, (1,))],
        [Batch(0, 3, ())],
        [Batch(0, 3, (1, 1))],
        [Batch(0, 0, (-1,))],
        [Batch(0, 0, (5,))],
        [Batch(0, 0, (4,))],
        [Batch(5, 6, (1,)), Batch(0, 1, (1,))],
        [Batch(-5, -1, (1,))],
    ],
)
def test_other_batches_are_invalid(batches: Any) -> None:
    with pytest.raises(InvalidRequest):
        read_batches(batches, version=2, is_renewal=False)


def test_renewals_must_be_announced_and_known() -> None:
    renewal: Any = [Batch(0, 0, (4,))]
    assert read_batches(renewal, version=2, is_renewal=True)
    with pytest.raises(InvalidRequest):
        read_batches(renewal, version=1, is_renewal=True)


@pytest.mark.parametrize(("group", "member"), [(None, "m"), ("", "m"), ("g", None), ("g", ""), ("g", "m" * 37)])
def test_ids_are_checked(group: str | None, member: str | None) -> None:
    with pytest.raises(InvalidRequest):
        check_member(group, member)
    assert check_member("g", "m" * 36) == ("g", "m" * 36)


class Partition(NamedTuple):
    acknowledgement_batches: tuple[Batch, ...] = ()


class Topic(NamedTuple):
    partitions: tuple[Any, ...]


ACCEPTED = Batch(0, 0, (1,))
MANY_TYPES = Batch(0, TYPE_COUNT_MAX - 1, (1,) * TYPE_COUNT_MAX)


@pytest.mark.parametrize(
    ("topics", "forgotten"),
    [
        ([Topic((Partition(),) * PARTITION_COUNT_MAX)], []),
        ([Topic((Partition(),))] * (PARTITION_COUNT_MAX // 2 + 1), []),
        ([Topic((Partition(),))], [Topic((0,) * PARTITION_COUNT_MAX)]),
        ([Topic((Partition((ACCEPTED,) * BATCH_COUNT_MAX), Partition((ACCEPTED,))))], []),
        ([Topic((Partition((MANY_TYPES,)), Partition((ACCEPTED,))))], []),
    ],
    ids=["partitions", "topics", "forgotten partitions", "batches", "types"],
)
def test_requests_that_no_real_client_sends_are_malformed(topics: list[Topic], forgotten: list[Topic]) -> None:
    with pytest.raises(MalformedRequest):
        check_length(topics, forgotten)


def test_long_requests_of_real_clients_are_accepted() -> None:
    check_length([Topic((Partition((ACCEPTED,)),) * (PARTITION_COUNT_MAX - 1))])
    check_length([Topic((Partition((ACCEPTED,) * BATCH_COUNT_MAX),))])
    check_length([Topic((Partition((MANY_TYPES,)),))])
