"""Tests of kafka-metadata-quorum with three voters and an observer."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.storage.meta_properties import encode_uuid
from tests.integration.nodes import Cluster
from tests.support.eventually import eventually
from tests.support.java_tools import JavaTools

pytestmark = pytest.mark.java

QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Provide a new cluster for each test, which may change the quorum, on a separate event loop and thread."""
    cluster = Cluster(tmp_path / "cluster", observers=1)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(cluster.start(), loop).result(60)
    yield cluster

    async def kill() -> None:
        cluster.kill()
        await asyncio.sleep(0)

    asyncio.run_coroutine_threadsafe(kill(), loop).result(60)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def describe(tools: JavaTools, cluster: Cluster, what: str) -> str:
    return tools.check(QUORUM, "--bootstrap-server", cluster.bootstrap, "describe", what)


def features(tools: JavaTools, cluster: Cluster) -> dict[str, tuple[str, ...]]:
    """Return the minimum, maximum and finalized level of each feature."""
    described = tools.check(FEATURES, "--bootstrap-server", cluster.bootstrap, "describe")
    rows = [line.split() for line in described.splitlines() if line.strip()]
    return {row[1]: (row[3], row[5], row[7]) for row in rows}


def test_status_and_replication_are_described(tools: JavaTools, cluster: Cluster) -> None:
    status = describe(tools, cluster, "--status")
    leader = re.search(r"LeaderId:\s+(\d)", status)
    assert leader is not None and leader[1] in "123", status
    rows = [line.split() for line in describe(tools, cluster, "--replication").splitlines()[1:] if line.strip()]
    assert [row[0] for row in rows] == sorted((row[0] for row in rows), key=lambda node: (node != leader[1], node))
    assert sorted(row[-1] for row in rows) == ["Follower", "Follower", "Leader", "Observer"]


def test_kraft_version_is_upgraded_once_and_stays(tools: JavaTools, cluster: Cluster) -> None:
    server = ("--bootstrap-server", cluster.bootstrap)
    assert features(tools, cluster)["kraft.version"] == ("0", "1", "0")
    dry = tools.check(FEATURES, *server, "upgrade", "--dry-run", "--feature", "kraft.version=1")
    assert "kraft.version can be upgraded to 1." in dry
    assert features(tools, cluster)["kraft.version"] == ("0", "1", "0")
    for _ in range(2):
        up = tools.check(FEATURES, *server, "upgrade", "--feature", "kraft.version=1")
        assert "kraft.version was upgraded to 1." in up
    eventually(lambda: features(tools, cluster)["kraft.version"] == ("0", "1", "1"))
    for words in (("downgrade", "--feature", "kraft.version=0"), ("disable", "--unsafe", "--feature", "kraft.version")):
        refused = tools.run(FEATURES, *server, *words)
        assert refused.code == 1 and "Can't downgrade the version of this feature." in refused.out, refused.text


def test_unsupported_features_are_neither_described_nor_upgraded(tools: JavaTools, cluster: Cluster) -> None:
    server = ("--bootstrap-server", cluster.bootstrap)
    assert "streams.version" not in features(tools, cluster)
    # The levels of a release include it, so the last step of an upgrade must name the features one by one.
    refused = tools.run(FEATURES, *server, "upgrade", "--release-version", "4.3")
    assert refused.code == 1 and "does not support this feature." in refused.out, refused.text
    assert "Invalid update version 1 for feature streams.version." in refused.out, refused.text
    levels = {name: highest for name, (_, highest, _) in features(tools, cluster).items() if name != "metadata.version"}
    present = [word for name, level in levels.items() for word in ("--feature", f"{name}={level}")]
    upgraded = tools.check(FEATURES, *server, "upgrade", "--metadata", "4.3", *present)
    assert "metadata.version was upgraded to 30." in upgraded


def test_a_controller_is_removed_and_added_again(tools: JavaTools, cluster: Cluster, tmp_path: Path) -> None:
    member = cluster.members[3]
    directory = encode_uuid(member.node.context.store.directory_id)
    server = ("--bootstrap-server", cluster.bootstrap)
    tools.check(QUORUM, *server, "remove-controller", "--controller-id", "3", "--controller-directory-id", directory)
    eventually(lambda: re.search(r'CurrentObservers:.*"id": 3', describe(tools, cluster, "--status")) is not None)
    settings = {
        **member.settings,
        "controller.listener.names": "PLAINTEXT",
        "advertised.listeners": member.settings["listeners"],
    }
    config = tmp_path / "controller.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    tools.check(QUORUM, "--command-config", str(config), *server, "add-controller")
    assert re.search(r'CurrentVoters:.*"id": 3', describe(tools, cluster, "--status"))
