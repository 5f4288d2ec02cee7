"""Clusters that are kept for the next task."""

import pytest

from penstock_client.protocol.cluster import Cluster, Topic
from penstock_client.protocol.cluster_cache import cached_cluster


def cluster() -> Cluster:
    return Cluster("nowhere:1")


def test_the_next_user_gets_the_same_one_with_nothing_old_known() -> None:
    with cached_cluster("same", cluster) as first:
        first.topics["t"] = Topic("t", bytes(16), {0: 1})
    with cached_cluster("same", cluster) as second:
        assert second is first and not second.topics


def test_two_users_at_once_never_share() -> None:
    with cached_cluster("apart", cluster) as first, cached_cluster("apart", cluster) as second:
        assert first is not second


def test_after_a_fault_it_is_not_kept() -> None:
    with pytest.raises(ValueError), cached_cluster("fault", cluster) as first:
        raise ValueError
    with cached_cluster("fault", cluster) as second:
        assert second is not first
