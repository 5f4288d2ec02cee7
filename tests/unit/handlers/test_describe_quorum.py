"""DescribeQuorum through its handler."""

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest, PartitionData, TopicData
from kio.static.primitive import i8

from penstock.handlers import describe_cluster, describe_quorum
from penstock.handlers.describe_quorum import UNREGISTERED_SILENT_S_MAX
from penstock.handlers.support.context import Endpoint
from penstock.metadata.voters import Voter, VoterEndpoint
from penstock.model.ids import NodeId, Offset
from penstock.raft.roles import FollowerProgress, Leader
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import body_of

HERE, FETCHING, SILENT = NodeId(1), NodeId(2), NodeId(3)
DISK = UUID(int=2)
FORMER_DISK = UUID(int=3)


def quorum(voters: tuple[Voter, ...], progress: dict[NodeId, FollowerProgress]) -> Any:
    role = Leader(epoch_start=Offset(0), begin_at=0.0, progress=progress)
    log = SimpleNamespace(end_offset=9)
    return SimpleNamespace(
        core=SimpleNamespace(role=role, voters=frozenset(voter.id for voter in voters), log=log),
        voter_registry=SimpleNamespace(present=voters, directories={SILENT: FORMER_DISK}),
        leader=HERE, epoch=4, high_watermark=9, image=SimpleNamespace(brokers={}),
    )  # fmt: skip


async def describe(node: FakeNode, known: Any) -> Any:
    node.context.quorum = known
    topic: Any = TopicData(topic_name="__cluster_metadata", partitions=(PartitionData(partition_index=0),))  # type: ignore[arg-type]
    return await node.ask(describe_quorum.handle, ApiKey.DESCRIBE_QUORUM, DescribeQuorumRequest(topics=(topic,)))


async def test_the_progress_of_a_voter_that_has_not_fetched_is_unknown() -> None:
    node = FakeNode()
    voters = tuple(
        Voter(id=each, endpoints=(VoterEndpoint(name="CONTROLLER", host="host", port=9000 + each),))
        for each in (HERE, FETCHING, SILENT)
    )
    now = node.clock.monotonic()
    fetching = FollowerProgress(end=Offset(7), heard_at=now, disk=DISK)
    response = await describe(
        node, quorum(voters, {FETCHING: fetching, SILENT: FollowerProgress(end=Offset(0), heard_at=now)})
    )
    _, second, third = response.topics[0].partitions[0].current_voters
    assert (second.log_end_offset, second.replica_directory_id) == (7, DISK)
    assert second.last_fetch_timestamp == node.clock.wall_ms()
    assert (third.log_end_offset, third.last_fetch_timestamp, third.last_caught_up_timestamp) == (-1, -1, -1)
    assert third.replica_directory_id == FORMER_DISK
    assert [(each.node_id, each.listeners[0].port) for each in response.nodes] == [(1, 9001), (2, 9002), (3, 9003)]


async def test_a_removed_node_is_no_observer() -> None:
    node = FakeNode()
    now = node.clock.monotonic()
    new, removed, stopped = NodeId(4), NodeId(5), NodeId(6)
    long_ago = now - UNREGISTERED_SILENT_S_MAX - 1
    heard = {new: now, removed: long_ago, stopped: long_ago}
    known = quorum(
        (Voter(id=HERE),), {each: FollowerProgress(end=Offset(7), heard_at=at) for each, at in heard.items()}
    )
    known.image.brokers[stopped] = SimpleNamespace()
    response = await describe(node, known)
    assert [each.replica_id for each in response.topics[0].partitions[0].observers] == [new, stopped]


async def test_the_only_voter_has_the_addresses_for_clients() -> None:
    node = FakeNode()
    response = await describe(node, quorum((Voter(id=HERE),), {}))
    (voter,) = response.nodes
    assert [(each.name, each.host, each.port) for each in voter.listeners] == [("PLAINTEXT", "host1", 9092)]


async def test_the_only_controller_has_a_controller_listener() -> None:
    node = FakeNode({"controller.listener.names": "CONTROLLER"})
    node.context.endpoints = (Endpoint("PLAINTEXT", "host1", 9092), Endpoint("CONTROLLER", "host1", 9093))
    node.context.quorum = quorum((Voter(id=HERE),), {})
    body = DescribeClusterRequest(
        include_cluster_authorized_operations=False, endpoint_type=i8(2), include_fenced_brokers=False
    )
    request = node.request(ApiKey.DESCRIBE_CLUSTER, 2, body, listener="CONTROLLER")
    response = await describe_cluster.handle(node.context, request)
    assert [(each.broker_id, each.host, each.port) for each in response.brokers] == [(1, "host1", 9093)]
    described = await describe(node, quorum((Voter(id=HERE),), {}))
    assert [each.name for each in described.nodes[0].listeners] == ["CONTROLLER"]


async def ask(node: FakeNode, *topics: tuple[str, tuple[int, ...]]) -> Any:
    listed = [
        {"topic_name": name, "partitions": [{"partition_index": index} for index in indexes]}
        for name, indexes in topics
    ]
    body = body_of(ApiKey.DESCRIBE_QUORUM, 2, topics=listed)
    return await node.ask(describe_quorum.handle, ApiKey.DESCRIBE_QUORUM, body)


async def test_partitions_other_than_the_metadata_log_are_unknown() -> None:
    node = FakeNode()
    node.context.quorum = quorum((Voter(id=HERE),), {})
    reply = await ask(node, ("orders", (0,)))
    assert [(topic.topic_name, row.error_code) for topic in reply.topics for row in topic.partitions] == [("orders", 3)]


async def test_a_follower_names_the_leader() -> None:
    node = FakeNode()
    known = quorum((Voter(id=HERE),), {})
    known.core.role, known.leader = None, FETCHING
    node.context.quorum = known
    (row,) = (await ask(node, ("__cluster_metadata", (0,)))).topics[0].partitions
    assert (row.error_code, row.leader_id, row.current_voters) == (6, FETCHING, ())
