from types import SimpleNamespace
from typing import Any

import pytest

from penstock_console import clusters
from penstock_console.clusters import ClusterAccess, MetadataResponse
from tests.support.console import settings_for


class FakeCluster:
    """A client of a cluster that must not ask for metadata itself."""

    metadata: Any = None

    def __enter__(self) -> "FakeCluster":
        return self

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture
def access(monkeypatch: pytest.MonkeyPatch) -> ClusterAccess:
    settings = settings_for()
    (cluster,) = settings.clusters.values()
    access = ClusterAccess(cluster, cluster.connection, settings.policy(cluster), {})
    monkeypatch.setattr(access, "open", FakeCluster)
    return access


def test_reads_of_a_moment_share_the_metadata_until_a_change(
    access: ClusterAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "FRESH_S", 3600.0)
    responses: list[Any] = []

    def read(connection: object) -> MetadataResponse:
        responses.append(SimpleNamespace(cluster_id="x", brokers=(), topics=()))
        return MetadataResponse(len(responses), responses[-1])

    monkeypatch.setattr(clusters, "read_metadata_response", read)
    assert access.metadata().as_of_ms == 1
    assert access.state(lambda cluster: cluster.metadata) is responses[0]
    assert len(responses) == 1
    access.changed()
    assert access.state(lambda cluster: cluster.metadata) is responses[1]
    assert access.metadata().as_of_ms == 2
