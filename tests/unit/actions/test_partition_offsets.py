from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ListOffsetsResultInfo

from penstock.actions.errors import ActionError
from penstock.actions.partition_offsets import first_offsets_since, latest_offsets


class Admin:
    """An admin client that returns these offsets, and an error for partitions that are left out."""

    def __init__(self, offsets: dict[tuple[str, int], int]) -> None:
        self._offsets = offsets

    def list_offsets(self, requested: dict[TopicPartition, Any], **_: Any) -> dict[TopicPartition, Future[Any]]:
        found = {}
        for place in requested:
            found[place] = future = Future[Any]()
            offset = self._offsets.get((place.topic, place.partition))
            if offset is None:
                future.set_exception(KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)))
            else:
                future.set_result(ListOffsetsResultInfo(offset, -1, -1))
        return found


ADMIN: Any = Admin({("orders", 0): 7, ("orders", 1): -1})


def test_a_partition_without_a_record_that_new_has_no_offset() -> None:
    assert first_offsets_since(ADMIN, [("orders", 0), ("orders", 1)], 1000) == {("orders", 0): 7, ("orders", 1): None}


def test_a_partition_that_does_not_answer_is_not_one_without_such_a_record() -> None:
    # A plan would move to the end of its log: records would be skipped, or deleted.
    with pytest.raises(ActionError, match="orders-2"):
        first_offsets_since(ADMIN, [("orders", 0), ("orders", 2)], 1000)


def test_a_partition_that_does_not_answer_has_an_empty_end() -> None:
    assert latest_offsets(ADMIN, [("orders", 0), ("orders", 2)]) == {("orders", 0): 7, ("orders", 2): None}
