"""kafka-metadata-quorum on three voters and an observer."""

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


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The nodes run on a loop and a thread of their own, beside a test that blocks."""
    cluster = Cluster(tmp_path_factory.mktemp("cluster"), observers=1)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(cluster.start(), loop).result(30)
    yield cluster

    async def kill() -> None:
        cluster.kill()
        await asyncio.sleep(0)

    asyncio.run_coroutine_threadsafe(kill(), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def describe(tools: JavaTools, cluster: Cluster, what: str) -> str:
    return tools.check(QUORUM, "--bootstrap-server", cluster.bootstrap, "describe", what)


def test_status_and_replication_are_described(tools: JavaTools, cluster: Cluster) -> None:
    status = describe(tools, cluster, "--status")
    leader = re.search(r"LeaderId:\s+(\d)", status)
    assert leader is not None and leader[1] in "123", status
    rows = [line.split() for line in describe(tools, cluster, "--replication").splitlines()[1:] if line.strip()]
    assert [row[0] for row in rows] == sorted((row[0] for row in rows), key=lambda node: (node != leader[1], node))
    assert sorted(row[-1] for row in rows) == ["Follower", "Follower", "Leader", "Observer"]


def test_a_controller_is_taken_out_and_in_again(tools: JavaTools, cluster: Cluster, tmp_path: Path) -> None:
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
