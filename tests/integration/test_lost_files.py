"""Tests of three nodes as processes, one of which loses or cannot open files of a partition: no record is lost."""

import shutil
import subprocess
import sys
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


def make_unopenable(cluster: PenstockCluster, node_id: int, topic: Topic) -> None:
    """Make opening a segment fail, even for root."""
    segment = sorted((cluster.data(node_id) / f"{topic.name}-0").glob("*.log"))[1]
    segment.unlink()
    segment.symlink_to(segment.name)


LOSSES: dict[str, Callable[[PenstockCluster, int, Topic], None]] = {
    "folder": lose_folder,
    "first": lose_segment(0),
    "middle": lose_segment(1),
    "active": lose_segment(-1),
    "unopenable": make_unopenable,
}


@pytest.mark.parametrize("end", [kill, pytest.param(stop, marks=pytest.mark.slow)], ids=lambda each: each.__name__)
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
        # Good news is no warning.
        repaired = [line for line in cluster.log(leaders[name]).splitlines() if f"{topic.name}-0 is repaired" in line]
        assert repaired and all(" INFO " in line for line in repaired)


def test_a_single_replica_is_offline_until_the_loss_is_accepted() -> None:
    with PenstockCluster(count=1, properties={"log.segment.bytes": "1048576"}) as cluster:
        topic = Topic(cluster, "alone", replicas=1, segment_bytes="1048576")
        topic.send(500, size=10_000)
        cluster.kill(1)
        segments = sorted(topic.folder(1).glob("*.log"))
        first, end = (int(path.stem) for path in segments[1:3])
        segments[1].unlink()
        cluster.restart(1)
        assert f"{topic.name}-0 is damaged, offsets {first} to" in cluster.log(1)
        acked = topic.acked
        topic.acked = {place: value for place, value in acked.items() if place[1] < first}
        assert topic.read() == topic.acked
        cluster.stop(1)
        words = ["log", "accept-loss", "--data", str(cluster.data(1)), f"{topic.name}-0"]
        looked = run(*words)
        assert f"to be given up: offsets {first} to {end - 1}" in looked and "nothing was changed" in looked
        assert f"given up: offsets {first} to {end - 1}" in run(*words, "--yes")
        cluster.restart(1)
        topic.acked = {place: value for place, value in acked.items() if not first <= place[1] < end}
        topic.send(5)
        assert topic.read() == topic.acked
        assert max(offset for _, offset in topic.acked) == 504


def run(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli.main", *words], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout
