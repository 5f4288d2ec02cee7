"""Tests of the cluster cache."""

import pytest

from penstock_client.protocol.cluster import Cluster, Topic
from penstock_client.protocol.cluster_cache import cached_cluster


def cluster() -> Cluster:
    return Cluster("nowhere:1")


def test_the_next_user_gets_the_same_cluster_without_old_metadata() -> None:
    with cached_cluster("same", cluster) as first:
        first.topics["t"] = Topic("t", bytes(16), {0: 1})
    with cached_cluster("same", cluster) as second:
        assert second is first and not second.topics


def test_two_concurrent_users_never_share_a_cluster() -> None:
    with cached_cluster("apart", cluster) as first, cached_cluster("apart", cluster) as second:
        assert first is not second


def test_a_cluster_is_not_cached_after_an_error() -> None:
    with pytest.raises(ValueError), cached_cluster("fault", cluster) as first:
        raise ValueError
    with cached_cluster("fault", cluster) as second:
        assert second is not first
