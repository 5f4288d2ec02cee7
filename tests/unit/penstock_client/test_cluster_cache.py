"""Tests of the cluster cache."""

import pytest

from penstock_client.protocol.cluster import Cluster, Topic
from penstock_client.protocol.cluster_cache import cached_cluster, close_idle_clusters


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


def test_idle_clusters_are_closed_at_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Cluster] = []
    close = Cluster.close

    def record_and_close(closing: Cluster) -> None:
        closed.append(closing)
        close(closing)  # other tests' clusters are in the cache too, with open sockets

    monkeypatch.setattr(Cluster, "close", record_and_close)
    with cached_cluster("idle", cluster) as idle, cached_cluster("other", cluster) as other:
        pass
    close_idle_clusters()
    assert any(each is idle for each in closed) and any(each is other for each in closed)
    with cached_cluster("idle", cluster) as next_one:
        assert next_one is not idle
