"""Three nodes as processes, one of which loses a partition's folder or a closed segment: nobody loses a record."""

import shutil
from collections.abc import Callable, Iterator

import pytest

from tests.integration.test_replication import Topic
from tests.support.penstock_cluster import PenstockCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[PenstockCluster]:
    with PenstockCluster(properties={"log.segment.bytes": "1048576"}) as running:
        yield running


def stop(cluster: PenstockCluster) -> None:
    for node_id in cluster.ids:
        cluster.stop(node_id)


def kill(cluster: PenstockCluster) -> None:
    for node_id in cluster.ids:
        cluster.kill(node_id)


def lose_folder(cluster: PenstockCluster, node_id: int, topic: Topic) -> None:
    shutil.rmtree(cluster.data(node_id) / f"{topic.name}-0")


def lose_segment(slot: int) -> Callable[[PenstockCluster, int, Topic], None]:
    def lose(cluster: PenstockCluster, node_id: int, topic: Topic) -> None:
        segments = sorted((cluster.data(node_id) / f"{topic.name}-0").glob("*.log"))
        assert len(segments) > 3
        segments[slot].unlink()

    return lose


LOSSES: dict[str, Callable[[PenstockCluster, int, Topic], None]] = {
    "folder": lose_folder,
    "first": lose_segment(0),
    "middle": lose_segment(1),
    "active": lose_segment(-1),
}


@pytest.mark.parametrize("end", [stop, kill], ids=lambda each: each.__name__)
def test_leaders_that_have_lost_files_do_not_lead_and_are_refilled(
    cluster: PenstockCluster, end: Callable[[PenstockCluster], None]
) -> None:
    topics = {name: Topic(cluster, f"{name}-{end.__name__}", segment_bytes="1048576") for name in LOSSES}
    leaders: dict[str, int] = {}
    for name, topic in topics.items():
        topic.await_isr(1, 2, 3)
        topic.send(500, size=10_000)
        leaders[name] = topic.leader
    end(cluster)
    for name, topic in topics.items():
        LOSSES[name](cluster, leaders[name], topic)
    cluster.start()
    for name, topic in topics.items():
        topic.await_isr(1, 2, 3)
        assert f"{topic.name}-0 is damaged" in cluster.log(leaders[name])
        topic.send(10)
        topic.check()
