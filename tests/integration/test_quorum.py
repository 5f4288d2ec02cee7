"""Three voters and their observers on real sockets: elections, commits, the loss of a leader, snapshots."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest, PartitionData, TopicData
from kio.schema.errors import ErrorCode

from penstock.client.peers import Peers
from penstock.metadata.records import ConfigRecord
from penstock.model.errors import NotController
from penstock.model.ids import TopicName
from penstock.ports.real import RealClock, RealEntropy, RealNetwork
from penstock.wire.api import ApiKey
from tests.integration.nodes import Cluster, Member, until

REELECTION_S_MAX = 1.0


def setting(value: str) -> list[ConfigRecord]:
    return [ConfigRecord(resource_type=2, resource_name="any", name="retention.ms", value=value)]


def value_at(member: Member) -> str | None:
    return member.quorum.image.topic_config(TopicName("any")).get("retention.ms")


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path, observers=1) as cluster:
        yield cluster


@pytest.fixture
async def client() -> AsyncIterator[Peers]:
    """Asks node n at port n."""
    network = RealNetwork()
    peers = Peers(
        network=network,
        clock=RealClock(),
        random=RealEntropy().stream("test"),
        address_of=lambda port: ("127.0.0.1", port),
        client_id="test",
    )
    yield peers
    peers.close()
    network.stop()


def port_of(member: Member) -> int:
    return int(member.address.rpartition(":")[2])


async def test_one_voter_leads_and_all_nodes_apply_what_it_commits(cluster: Cluster) -> None:
    active = await cluster.until_active()
    assert [member.quorum.is_active for member in cluster.running].count(True) == 1
    for number in range(20):
        await active.quorum.commit(setting(str(number)))
    await cluster.until_agreed()
    assert [value_at(member) for member in cluster.running] == ["19"] * 4
    others = [member for member in cluster.running if member is not active]
    assert all(member.quorum.leader == active.quorum.node_id for member in others)
    with pytest.raises(NotController):
        await others[0].quorum.commit(setting("no"))
    assert not cluster.members[4].quorum.is_voter


async def test_a_leader_whose_process_is_gone_is_replaced_within_a_second_and_comes_back_as_a_follower(
    cluster: Cluster,
) -> None:
    for round_number in range(3):
        active = await cluster.until_active()
        await active.quorum.commit(setting(f"before {round_number}"))
        active.kill()
        took = await until(lambda: cluster.active is not None)
        assert took < REELECTION_S_MAX, f"round {round_number}"
        successor = await cluster.until_active()
        assert value_at(successor) == f"before {round_number}"
        await successor.quorum.commit(setting(f"after {round_number}"))
        await active.start()
        await until(lambda member=active, number=round_number: value_at(member) == f"after {number}")  # type: ignore[misc]
        assert active.quorum.epoch == successor.quorum.epoch


async def test_a_leader_that_stops_hands_over(cluster: Cluster) -> None:
    active = await cluster.until_active()
    await active.stop()
    assert await until(lambda: cluster.active is not None) < REELECTION_S_MAX


async def test_a_commit_fails_when_the_majority_is_gone_and_is_not_shown(cluster: Cluster) -> None:
    active = await cluster.until_active()
    await active.quorum.commit(setting("committed"))
    for member in cluster.running:
        if member is not active and member.quorum.is_voter:
            member.kill()
    commit = asyncio.ensure_future(active.quorum.commit(setting("lonely")))
    with pytest.raises(NotController):
        await asyncio.wait_for(commit, 10)
    assert value_at(active) == "committed"
    assert not active.quorum.is_active


async def test_a_voter_with_an_empty_disk_is_refilled_from_a_snapshot(tmp_path: Path) -> None:
    async with Cluster(tmp_path, metadata_log_max_record_bytes_between_snapshots="2000") as cluster:
        active = await cluster.until_active()
        behind = next(member for member in cluster.running if member is not active)
        behind.kill()
        for number in range(200):
            await active.quorum.commit(setting(str(number)))
        await until(lambda: active.quorum.log.start_offset > 0)
        shutil.rmtree(behind.settings["log.dirs"])
        await behind.start()
        await until(lambda: value_at(behind) == "199")
        assert behind.quorum.log.start_offset >= active.quorum.log.start_offset > 0
        await active.quorum.commit(setting("last"))
        await cluster.until_agreed()
        assert value_at(behind) == "last"


async def test_a_request_for_the_controller_is_answered_by_any_node(cluster: Cluster, client: Peers) -> None:
    await cluster.until_active()
    for member in cluster.running:
        name = TopicName(f"made-at-{member.settings['node.id']}")
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=3, assignments=(), configs=())  # type: ignore[arg-type]
        request = CreateTopicsRequest(topics=(topic,))
        answer = await client.ask(port_of(member), ApiKey.CREATE_TOPICS, request, timeout_s=10)
        assert answer.topics[0].error_code == ErrorCode.none, answer
        assert name in member.quorum.image.topics, "the node that was asked knows it at once"


async def test_any_node_describes_the_quorum(cluster: Cluster, client: Peers) -> None:
    active = await cluster.until_active()
    topic = TopicData(topic_name="__cluster_metadata", partitions=(PartitionData(partition_index=0),))  # type: ignore[arg-type]
    for member in cluster.running:
        answer = await client.ask(
            port_of(member), ApiKey.DESCRIBE_QUORUM, DescribeQuorumRequest(topics=(topic,)), timeout_s=10
        )
        (partition,) = answer.topics[0].partitions
        assert partition.leader_id == active.quorum.node_id
        assert [voter.replica_id for voter in partition.current_voters] == [1, 2, 3]
        assert [observer.replica_id for observer in partition.observers] == [4]
        assert partition.high_watermark >= active.quorum.image.offset
