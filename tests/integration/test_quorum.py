"""Tests of three voters and their observers on real sockets: elections, commits, loss of a leader, snapshots."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest, PartitionData, TopicData
from kio.schema.errors import ErrorCode

from penstock.client.peers import Peers
from penstock.metadata.membership import add_voter, remove_voter
from penstock.metadata.records import ConfigRecord
from penstock.metadata.voters import Voter, VoterEndpoint
from penstock.model.errors import DuplicateVoter, NotController, StartupError
from penstock.model.ids import TopicName
from penstock.ports.real import RealClock, RealEntropy, RealNetwork
from penstock.wire.api import ApiKey
from tests.integration.nodes import Cluster, Member
from tests.support.eventually import PATIENCE_S, eventually_here
from tests.support.ports import free_ports


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
    """Connect to node n at port n."""
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


async def test_one_voter_leads_and_all_nodes_apply_its_commits(cluster: Cluster) -> None:
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


async def test_a_killed_leader_is_replaced_and_returns_as_a_follower(
    cluster: Cluster,
) -> None:
    for round_number in range(3):
        active = await cluster.until_active()
        await active.quorum.commit(setting(f"before {round_number}"))
        active.kill()
        successor = await cluster.until_active()
        assert value_at(successor) == f"before {round_number}"
        await successor.quorum.commit(setting(f"after {round_number}"))
        await active.start()
        await eventually_here(lambda member=active, number=round_number: value_at(member) == f"after {number}")  # type: ignore[misc]
        assert active.quorum.epoch == successor.quorum.epoch


async def test_a_stopping_leader_resigns(cluster: Cluster) -> None:
    active = await cluster.until_active()
    epoch = active.quorum.epoch
    await active.stop()
    assert (await cluster.until_active()).quorum.epoch > epoch


async def test_a_whole_cluster_restarts_with_all_committed_records(cluster: Cluster) -> None:
    active = await cluster.until_active()
    await active.quorum.commit(setting("kept"))
    members = cluster.running
    await asyncio.wait_for(asyncio.gather(*(member.stop() for member in members)), PATIENCE_S)
    await cluster.start()
    await cluster.until_agreed()
    assert [value_at(member) for member in members] == ["kept"] * 4


async def test_a_broker_stops_when_its_controllers_are_gone(cluster: Cluster) -> None:
    await cluster.until_active()
    for number in (1, 2, 3):
        cluster.members[number].kill()
    await asyncio.wait_for(cluster.members[4].stop(), PATIENCE_S)
    assert cluster.running == []


async def test_a_commit_fails_when_the_majority_is_gone_and_is_not_visible(cluster: Cluster) -> None:
    active = await cluster.until_active()
    await active.quorum.commit(setting("committed"))
    for member in cluster.running:
        if member is not active and member.quorum.is_voter:
            member.kill()
    commit = asyncio.ensure_future(active.quorum.commit(setting("lonely")))
    with pytest.raises(NotController):
        await asyncio.wait_for(commit, PATIENCE_S)
    assert value_at(active) == "committed"
    assert not active.quorum.is_active


async def test_a_voter_with_an_empty_disk_is_refilled_from_a_snapshot(tmp_path: Path) -> None:
    async with Cluster(tmp_path, metadata_log_max_record_bytes_between_snapshots="2000") as cluster:
        active = await cluster.until_active()
        behind = next(member for member in cluster.running if member is not active)
        behind.kill()
        for number in range(200):
            await active.quorum.commit(setting(str(number)))
        await eventually_here(lambda: active.quorum.log.start_offset > 0)
        shutil.rmtree(behind.settings["log.dirs"])
        await behind.start()
        await eventually_here(lambda: value_at(behind) == "199")
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
        assert name in member.quorum.image.topics, "the node that received the request knows it immediately"


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


async def test_only_controllers_lead_and_only_brokers_have_partitions(tmp_path: Path, client: Peers) -> None:
    cluster = Cluster(tmp_path, voters=1, observers=1)
    cluster.members[1].settings |= {"process.roles": "controller", "controller.listener.names": "PLAINTEXT"}
    async with cluster:
        controller, broker = cluster.members[1], cluster.members[2]
        await eventually_here(lambda: list(broker.quorum.image.brokers) == [2])
        assert controller.quorum.is_active and not broker.quorum.is_voter
        topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1, assignments=(), configs=())  # type: ignore[arg-type]
        answer = await client.ask(
            port_of(broker), ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=(topic,)), timeout_s=10
        )
        assert answer.topics[0].error_code == ErrorCode.none, answer
        assert {each.leader for each in broker.quorum.image.topics[TopicName("t")].partitions} == {2}
        described = await client.ask(
            port_of(controller),
            ApiKey.DESCRIBE_CLUSTER,
            DescribeClusterRequest(
                include_cluster_authorized_operations=False,
                endpoint_type=2,  # type: ignore[arg-type]
                include_fenced_brokers=False,
            ),
            timeout_s=10,
        )
        assert (described.controller_id, [each.broker_id for each in described.brokers]) == (1, [1])


async def test_voters_are_added_and_removed_one_at_a_time(cluster: Cluster) -> None:
    active = await cluster.until_active()
    newcomer = cluster.members[4]
    host, port = newcomer.address.split(":")
    voter = Voter(
        id=newcomer.quorum.node_id,
        directory_id=newcomer.node.context.store.directory_id,
        endpoints=(VoterEndpoint(name="PLAINTEXT", host=host, port=int(port)),),
    )
    clock = RealClock()
    await add_voter(active.quorum, clock, voter, timeout_s=10)
    await eventually_here(lambda: all(len(member.quorum.core.voters) == 4 for member in cluster.running))
    with pytest.raises(DuplicateVoter):
        await add_voter(active.quorum, clock, voter, timeout_s=10)
    # A leader that removes itself resigns, and continues as an observer.
    await remove_voter(active.quorum, clock, active.quorum.node_id, None, timeout_s=10)
    await eventually_here(lambda: cluster.active not in (None, active))
    successor = await cluster.until_active()
    assert active.quorum.node_id not in successor.quorum.core.voters
    await successor.quorum.commit(setting("without it"))
    await eventually_here(lambda: value_at(active) == "without it")
    # The voters in the log count, not the configured ones.
    newcomer.kill()
    await newcomer.start()
    assert newcomer.quorum.is_voter


async def test_a_node_with_bootstrap_servers_finds_the_quorum(cluster: Cluster, tmp_path: Path) -> None:
    await cluster.until_active()
    settings = dict(cluster.members[4].settings)
    del settings["controller.quorum.voters"]
    stranger = Member({
        **settings,
        "node.id": "9",
        "controller.quorum.bootstrap.servers": cluster.members[1].address,
        "log.dirs": str(tmp_path / "9"),
        "listeners": f"PLAINTEXT://127.0.0.1:{free_ports(1)[0]}",
    })  # fmt: skip
    await stranger.start()
    active = await cluster.until_active()
    await active.quorum.commit(setting("for all"))
    await eventually_here(lambda: value_at(stranger) == "for all")
    assert stranger.quorum.leader == active.quorum.node_id and not stranger.quorum.is_voter
    stranger.kill()


async def test_a_new_node_of_an_existing_cluster_needs_a_cluster_id(cluster: Cluster, tmp_path: Path) -> None:
    settings = {name: value for name, value in cluster.members[1].settings.items() if name != "cluster.id"}
    with pytest.raises(StartupError, match=r"set cluster\.id"):
        await Member({**settings, "log.dirs": str(tmp_path / "new")}).start()
