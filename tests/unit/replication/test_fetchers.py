"""Tests of which partitions are fetched by which fetcher."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

from penstock.model.ids import NodeId
from penstock.replication.fetchers import Fetchers
from tests.unit.replication.test_fetcher import FollowedPartition

LEADER = NodeId(2)


def test_a_partition_that_is_opened_while_the_node_stops_is_not_fetched() -> None:
    context = MagicMock()
    context.settings().integer.return_value = 1
    partition: Any = FollowedPartition()
    partition.leader = LEADER
    fetchers = Fetchers(context)
    fetchers.follow(partition)
    assert [fetcher.leader for fetcher in fetchers] == [LEADER]
    context.address_of.reset_mock()
    fetchers.close()
    fetchers.follow(partition)
    assert list(fetchers) == []
    context.address_of.assert_not_called()
