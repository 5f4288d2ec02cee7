"""The group APIs between the wire and the coordinator: what each version says, and which refusal goes where."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.offset_delete.v0.request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kio.schema.sync_group.v5.request import SyncGroupRequest

from penstock.coordinator.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator
from penstock.groups.commands import (
    COMMITTED,
    DeleteGroups,
    DescribedGroup,
    DescribedMember,
    DescribeGroups,
    Heartbeat,
    HeartbeatReply,
    JoinedMember,
    JoinGroup,
    JoinReply,
    LeaveGroup,
    LeaveReply,
    ListedGroup,
    ListGroups,
    OffsetCommit,
    OffsetCommitReply,
    OffsetDelete,
    OffsetDeleteReply,
    OffsetFetch,
    OffsetFetchReply,
    SyncGroup,
    SyncReply,
)
from penstock.groups.consumer.commands import (
    ConsumerGroupDescribe,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    DescribedPartitions,
)
from penstock.groups.records import OffsetCommitValue
from penstock.handlers import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from penstock.handlers.offset_commit import OffsetCommitHandler
from penstock.metadata.records import PartitionRecord, RemoveTopicRecord, TopicRecord
from penstock.model.ids import NodeId
from penstock.model.topic import CONSUMER_OFFSETS
from penstock.wire.api import ApiKey
from penstock.wire.codec import request_class
from penstock.wire.schema import shape_of
from tests.unit.handlers.fakes import FakeNode

ORDERS_ID = UUID(int=7)
UNKNOWN_TOPIC_OR_PARTITION, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR = 3, 15, 16
INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, GROUP_ID_NOT_FOUND = 23, 25, 35, 69
INVALID_REQUEST, UNKNOWN_TOPIC_ID = 42, 100


def node(*, partitions: int = 2) -> FakeNode:
    made = FakeNode()
    made.quorum.put(
        [
            TopicRecord(name="orders", topic_id=ORDERS_ID),
            *(
                PartitionRecord(
                    partition_id=index,
                    topic_id=ORDERS_ID,
                    replicas=(NodeId(1),),
                    isr=(NodeId(1),),
                    leader=NodeId(1),
                    leader_epoch=0,
                    partition_epoch=0,
                )
                for index in range(partitions)
            ),
        ]
    )
    return made


def made_of(entity: type[Any], **values: Any) -> Any:
    """An entity of any version: lists of dictionaries become its parts, what it lacks is left out."""
    shape = shape_of(entity)
    fields = {}
    for field in (*shape.plain, *shape.tagged):
        value = values.get(field.name, field.default)
        if field.entity is not None and field.repeated and value is not None:
            value = tuple(made_of(field.entity, **part) for part in value)
        fields[field.name] = value
    return entity(**fields)


# -- FindCoordinator -------------------------------------------------------------------------


async def test_the_first_question_for_a_coordinator_makes_the_topic() -> None:
    world = FakeNode({"offsets.topic.num.partitions": "5"})
    body = FindCoordinatorRequest(key_type=0, coordinator_keys=("g", "h"))  # type: ignore[arg-type]
    reply = await world.ask(find_coordinator.handle, ApiKey.FIND_COORDINATOR, body)
    assert [(each.key, each.node_id, each.host, each.port, each.error_code) for each in reply.coordinators] == [
        ("g", 1, "host1", 9092, 0),
        ("h", 1, "host1", 9092, 0),
    ]
    assert len(world.image.topics[CONSUMER_OFFSETS].partitions) == 5
    assert world.image.topic_config(CONSUMER_OFFSETS) == {
        "cleanup.policy": "compact",
        "segment.bytes": "104857600",
        "compression.type": "producer",
    }


async def test_a_topic_that_cannot_be_made_is_no_coordinator_yet() -> None:
    world = FakeNode({"offsets.topic.replication.factor": "3"})
    body = FindCoordinatorRequest(key_type=0, coordinator_keys=("g",))  # type: ignore[arg-type]
    reply = await world.ask(find_coordinator.handle, ApiKey.FIND_COORDINATOR, body)
    assert (reply.coordinators[0].error_code, reply.coordinators[0].node_id) == (COORDINATOR_NOT_AVAILABLE, -1)


@pytest.mark.parametrize(
    ("version", "key_type", "key", "error"),
    [
        (2, 7, "t", INVALID_REQUEST),
        (5, 2, "g:a:0", INVALID_REQUEST),
        (6, 2, "g:a:0", COORDINATOR_NOT_AVAILABLE),
        (6, 2, "g", INVALID_REQUEST),
        (6, 3, "g", INVALID_REQUEST),
    ],
)
async def test_other_coordinators_are_not_there(version: int, key_type: int, key: str, error: int) -> None:
    world = FakeNode()
    body = FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))  # type: ignore[arg-type]
    reply = await find_coordinator.handle(world.context, world.request(ApiKey.FIND_COORDINATOR, version, body))
    found = reply if version < 4 else reply.coordinators[0]
    assert (found.error_code, found.node_id) == (error, -1)
    # Only a single answer is explained, and a key of a type that nobody knows.
    assert bool(found.error_message) == (version < 4 or key_type == 3)


# -- JoinGroup, SyncGroup, Heartbeat, LeaveGroup ---------------------------------------------


async def join(world: FakeNode, version: int) -> Any:
    body = made_of(
        request_class(ApiKey.JOIN_GROUP, version),
        group_id="g",
        rebalance_timeout=timedelta(seconds=9),
        protocols=[{"name": "range", "metadata": b"s"}],
    )
    return await world.ask(join_group.handle, ApiKey.JOIN_GROUP, body, version=version)


@pytest.mark.parametrize("version", range(10))
async def test_a_join_says_what_its_version_can(version: int) -> None:
    world = node()
    members = (JoinedMember(member_id="m", instance_id="i", metadata=b"s"),)
    world.groups.replies[JoinGroup] = JoinReply(
        member_id="m", generation=3, protocol_type="consumer", protocol_name="range", leader="m", members=members
    )
    reply = await join(world, version)
    assert (reply.error_code, reply.generation_id, reply.member_id, reply.leader) == (0, 3, "m", "m")
    assert (reply.protocol_name, reply.protocol_type) == ("range", "consumer" if version >= 7 else None)
    assert [each.metadata for each in reply.members] == [b"s"]
    (command,) = world.groups.asked
    assert (command.must_know_member_id, command.can_skip_assignment) == (version >= 4, version >= 9)
    assert (command.client_id, command.client_host) == ("test", "/10.1.2.3")
    assert command.rebalance_timeout_ms == (-1 if version == 0 else 9000)


@pytest.mark.parametrize("version", [0, 6, 7, 9])
async def test_a_refused_join_has_no_protocol_name(version: int) -> None:
    world = node()
    world.groups.replies[JoinGroup] = NotCoordinator()
    reply = await join(world, version)
    assert (reply.error_code, reply.generation_id) == (NOT_COORDINATOR, -1)
    assert reply.protocol_name == (None if version >= 7 else "")


async def test_a_sync_must_name_its_protocol_from_version_five_on() -> None:
    world = node()
    world.groups.replies[SyncGroup] = SyncReply(assignment=b"a")
    body = SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=())  # type: ignore[arg-type]
    reply = await world.ask(sync_group.handle, ApiKey.SYNC_GROUP, body)
    assert reply.error_code == INCONSISTENT_GROUP_PROTOCOL and not world.groups.asked
    reply = await world.ask(sync_group.handle, ApiKey.SYNC_GROUP, body, version=4)
    assert (reply.error_code, reply.assignment) == (0, b"a")
    world.groups.replies[SyncGroup] = CoordinatorLoadInProgress()
    reply = await world.ask(sync_group.handle, ApiKey.SYNC_GROUP, body, version=4)
    assert reply.error_code == CoordinatorLoadInProgress.code


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize(
    ("said", "error"),
    [
        (HeartbeatReply(0), 0),
        (HeartbeatReply(27), 27),
        (NotCoordinator(), NOT_COORDINATOR),
        # Nobody's session runs while the group is being read.
        (CoordinatorLoadInProgress(), 0),
    ],
)
async def test_a_heartbeat_is_answered(version: int, said: Any, error: int) -> None:
    world = node()
    world.groups.replies[Heartbeat] = said
    body = made_of(request_class(ApiKey.HEARTBEAT, version), group_id="g", generation_id=4, member_id="m")
    reply = await world.ask(heartbeat.handle, ApiKey.HEARTBEAT, body, version=version)
    assert reply.error_code == error
    assert world.groups.asked == [Heartbeat(group_id="g", generation=4, member_id="m")]


async def test_a_leave_has_one_error_or_many() -> None:
    world = node()
    world.groups.replies[LeaveGroup] = LeaveReply(errors=(UNKNOWN_MEMBER_ID,))
    old = request_class(ApiKey.LEAVE_GROUP, 2)(group_id="g", member_id="m")
    reply = await world.ask(leave_group.handle, ApiKey.LEAVE_GROUP, old, version=2)
    assert reply.error_code == UNKNOWN_MEMBER_ID
    world.groups.replies[LeaveGroup] = LeaveReply(errors=(0, UNKNOWN_MEMBER_ID))
    members = (MemberIdentity(member_id="m"), MemberIdentity(member_id="", group_instance_id="i"))
    body = LeaveGroupRequest(group_id="g", members=members)  # type: ignore[arg-type]
    reply = await world.ask(leave_group.handle, ApiKey.LEAVE_GROUP, body)
    assert reply.error_code == 0
    assert [(each.member_id, each.group_instance_id, each.error_code) for each in reply.members] == [
        ("m", None, 0),
        ("", "i", UNKNOWN_MEMBER_ID),
    ]
    for version in (2, 5):
        world.groups.replies[LeaveGroup] = NotCoordinator()
        reply = await world.ask(leave_group.handle, ApiKey.LEAVE_GROUP, old if version == 2 else body, version=version)
        assert (reply.error_code, reply.members) == (NOT_COORDINATOR, ())


# -- offsets ---------------------------------------------------------------------------------


def partition(index: int, offset: int) -> dict[str, Any]:
    return {"partition_index": index, "committed_offset": offset, "committed_metadata": "n"}


@pytest.mark.parametrize("version", range(2, 11))
async def test_a_commit_goes_on_with_what_exists(version: int) -> None:
    world = node()
    world.groups.replies[OffsetCommit] = OffsetCommitReply((0, 12))
    body = made_of(
        request_class(ApiKey.OFFSET_COMMIT, version),
        group_id="g",
        topics=[
            {
                "name": "orders",
                "topic_id": ORDERS_ID,
                "partitions": [partition(1, 5), partition(9, 1), partition(0, 6)],
            },
            {"name": "gone", "topic_id": UUID(int=99), "partitions": [partition(0, 1)]},
        ],
    )
    reply = world.ask_hot(OffsetCommitHandler(world.context).handle, ApiKey.OFFSET_COMMIT, body, version=version)
    rows = [[(part.partition_index, part.error_code) for part in topic.partitions] for topic in reply.topics]
    unknown = UNKNOWN_TOPIC_ID if version >= 10 else UNKNOWN_TOPIC_OR_PARTITION
    assert rows == [[(9, UNKNOWN_TOPIC_OR_PARTITION), (1, 0), (0, 12)], [(0, unknown)]]
    (command,) = world.groups.asked
    assert [(each.topic, each.topic_id, each.partition, each.offset) for each in command.offsets] == [
        ("orders", ORDERS_ID, 1, 5),
        ("orders", ORDERS_ID, 0, 6),
    ]
    assert command.knows_member_epochs == (version >= 9)


async def test_a_commit_of_nothing_that_exists_bothers_nobody() -> None:
    world = node()
    body = made_of(
        request_class(ApiKey.OFFSET_COMMIT, 9), group_id="g", topics=[{"name": "gone", "partitions": [partition(0, 1)]}]
    )
    reply = world.ask_hot(OffsetCommitHandler(world.context).handle, ApiKey.OFFSET_COMMIT, body, version=9)
    assert reply.topics[0].partitions[0].error_code == UNKNOWN_TOPIC_OR_PARTITION and not world.groups.asked
    world.groups.replies[OffsetCommit] = NotCoordinator()
    body = made_of(type(body), group_id="g", topics=[{"name": "orders", "partitions": [partition(0, 1)]}])
    reply = world.ask_hot(OffsetCommitHandler(world.context).handle, ApiKey.OFFSET_COMMIT, body, version=9)
    assert reply.topics[0].partitions[0].error_code == NOT_COORDINATOR


@pytest.mark.parametrize("version", range(2, 11))
async def test_a_consumer_that_commits_again_is_understood_as_the_first_time(version: int) -> None:
    """What is remembered of it must not show, whatever it commits and notes, and whatever it is told."""
    world = node()
    handler = OffsetCommitHandler(world.context)
    said = [COMMITTED, COMMITTED, OffsetCommitReply((12,)), NotCoordinator()]
    for number, note in enumerate(["", "", None, "", "n", "\x01", "\x00", "", "\x00\x00\x01", None, "", ""]):
        world.groups.replies[OffsetCommit] = said[number % len(said)]
        row = {**partition(1, 1 << 8 * (number % 8)), "committed_metadata": note, "committed_leader_epoch": number - 1}
        topics = [{"name": "orders", "topic_id": ORDERS_ID, "partitions": [row]}]
        cls = request_class(ApiKey.OFFSET_COMMIT, version)
        body = made_of(cls, group_id="g", member_id="m", generation_id=3, topics=topics)
        again, first = (
            world.ask_hot(one.handle, ApiKey.OFFSET_COMMIT, body, version=version)
            for one in (handler, OffsetCommitHandler(world.context))
        )
        assert again == first
    asked = world.groups.asked
    assert len(asked) == 24
    for again, first in zip(asked[::2], asked[1::2], strict=True):
        assert again._replace(offsets=list(again.offsets)) == first
    assert len(handler._remembered) == (1 if version >= 8 else 0)


async def test_what_is_remembered_of_a_consumer_ends_with_the_metadata_and_has_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = node()
    world.groups.replies[OffsetCommit] = COMMITTED
    handler = OffsetCommitHandler(world.context)

    def commit(group_id: str) -> int:
        row = {**partition(1, 5), "committed_metadata": ""}
        topics = [{"name": "orders", "partitions": [row]}]
        body = made_of(request_class(ApiKey.OFFSET_COMMIT, 9), group_id=group_id, topics=topics)
        reply = world.ask_hot(handler.handle, ApiKey.OFFSET_COMMIT, body, version=9)
        return int(reply.topics[0].partitions[0].error_code)

    monkeypatch.setattr(offset_commit, "REMEMBERED_MAX", 3)
    assert [commit(f"g{number}") for number in range(8)] == [0] * 8
    assert len(handler._remembered) == 2
    world.quorum.put([RemoveTopicRecord(topic_id=ORDERS_ID)])
    assert commit("g7") == UNKNOWN_TOPIC_OR_PARTITION


def value(offset: int, topic_id: UUID = ORDERS_ID) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset=offset, leader_epoch=2, metadata="n", commit_timestamp=1, expire_timestamp=-1, topic_id=topic_id
    )


def fetch_body(version: int, topics: list[dict[str, Any]] | None) -> Any:
    return made_of(
        request_class(ApiKey.OFFSET_FETCH, version),
        group_id="g",
        topics=topics,
        groups=[{"group_id": "g", "topics": topics}],
    )


async def fetch(world: FakeNode, version: int, topics: list[dict[str, Any]] | None) -> Any:
    """The only group of the reply, whatever the version."""
    body = fetch_body(version, topics)
    reply = await world.ask(offset_fetch.handle, ApiKey.OFFSET_FETCH, body, version=version)
    return reply.groups[0] if version >= 8 else reply


@pytest.mark.parametrize("version", range(1, 11))
async def test_offsets_are_told_and_what_was_never_committed_is_no_error(version: int) -> None:
    world = node()
    world.groups.replies[OffsetFetch] = OffsetFetchReply(topics=(("orders", ((0, value(5)), (1, None))),))
    topics = [
        {"name": "orders", "topic_id": ORDERS_ID, "partition_indexes": (0, 1)},
        {"name": "gone", "topic_id": UUID(int=99), "partition_indexes": (4,)},
    ]
    group = await fetch(world, version, topics if version >= 10 else topics[:1])
    rows = [(part.partition_index, part.committed_offset, part.error_code) for part in group.topics[0].partitions]
    assert rows == [(0, 5, 0), (1, -1, 0)]
    assert group.topics[0].partitions[0].metadata == "n"
    if version >= 10:
        unknown = group.topics[1].partitions[0]
        assert (unknown.partition_index, unknown.error_code) == (4, UNKNOWN_TOPIC_ID)
    assert world.groups.asked[0].topics == (("orders", (0, 1)),)


@pytest.mark.parametrize("version", [2, 8, 10])
async def test_null_asks_for_all_that_was_committed(version: int) -> None:
    world = node()
    # The one was deleted a moment ago: by its id it cannot be named any more.
    world.groups.replies[OffsetFetch] = OffsetFetchReply(
        topics=(("orders", ((0, value(5)),)), ("gone", ((0, value(1)),)))
    )
    group = await fetch(world, version, None)
    assert world.groups.asked[0].topics is None
    assert len(group.topics) == (1 if version >= 10 else 2)


@pytest.mark.parametrize("version", [7, 10])
async def test_what_was_committed_for_an_earlier_topic_of_the_name_is_not_told(version: int) -> None:
    world = node()
    old, unmarked = value(5, UUID(int=6)), value(6, UUID(int=0))
    world.groups.replies[OffsetFetch] = OffsetFetchReply(topics=(("orders", ((0, old), (1, unmarked))),))
    group = await fetch(world, version, None)
    assert [part.committed_offset for part in group.topics[0].partitions] == [-1, 6]


@pytest.mark.parametrize("version", [1, 2, 7, 8, 10])
async def test_a_group_that_cannot_be_read_says_so_where_its_version_has_room(version: int) -> None:
    world = node()
    topics = [{"name": "orders", "topic_id": ORDERS_ID, "partition_indexes": (0,)}]
    for said, error in (
        (OffsetFetchReply(error=113), 113),
        (CoordinatorLoadInProgress(), CoordinatorLoadInProgress.code),
        (CoordinatorNotAvailable(), NOT_COORDINATOR),
    ):
        world.groups.replies[OffsetFetch] = said
        group = await fetch(world, version, topics)
        if version == 1:
            (told,) = group.topics[0].partitions
            assert (told.committed_offset, told.error_code) == (-1, error)
        else:
            assert (group.error_code, group.topics) == (error, ())


async def test_offsets_are_deleted_per_topic() -> None:
    world = node()
    world.groups.replies[OffsetDelete] = OffsetDeleteReply(errors=(86,))
    partitions = tuple(OffsetDeleteRequestPartition(partition_index=index) for index in (0, 9))  # type: ignore[arg-type]
    topics = tuple(OffsetDeleteRequestTopic(name=name, partitions=partitions) for name in ("orders", "gone"))  # type: ignore[arg-type]
    body = OffsetDeleteRequest(group_id="g", topics=topics)  # type: ignore[arg-type]
    reply = await world.ask(offset_delete.handle, ApiKey.OFFSET_DELETE, body)
    assert world.groups.asked == [OffsetDelete(group_id="g", topics=(("orders", (0,)),))]
    rows = {topic.name: {part.partition_index: part.error_code for part in topic.partitions} for topic in reply.topics}
    assert rows == {
        "orders": {0: 86, 9: UNKNOWN_TOPIC_OR_PARTITION},
        "gone": {0: UNKNOWN_TOPIC_OR_PARTITION, 9: UNKNOWN_TOPIC_OR_PARTITION},
    }
    for said in (OffsetDeleteReply(error=GROUP_ID_NOT_FOUND), NotCoordinator()):
        world.groups.replies[OffsetDelete] = said
        reply = await world.ask(offset_delete.handle, ApiKey.OFFSET_DELETE, body)
        assert reply.error_code in (GROUP_ID_NOT_FOUND, NOT_COORDINATOR) and reply.topics == ()


# -- administration --------------------------------------------------------------------------


async def test_groups_are_described_and_missing_ones_are_dead_or_not_found() -> None:
    world = node()
    member = DescribedMember(
        member_id="m", instance_id=None, client_id="c", client_host="/h", metadata=b"s", assignment=b"a"
    )
    world.groups.replies[DescribeGroups] = (
        DescribedGroup(group_id="g", state="Stable", protocol_type="consumer", protocol="range", members=(member,)),
    )
    body = DescribeGroupsRequest(groups=("g",), include_authorized_operations=True)  # type: ignore[arg-type]
    (group,) = (await world.ask(describe_groups.handle, ApiKey.DESCRIBE_GROUPS, body)).groups
    assert (group.group_state, group.protocol_data, group.authorized_operations) == ("Stable", "range", 3400)
    assert [(each.client_host, each.member_assignment) for each in group.members] == [("/h", b"a")]
    world.groups.replies[DescribeGroups] = (
        DescribedGroup(error=GROUP_ID_NOT_FOUND, error_message="no", group_id="g", state="Dead"),
    )
    for version, error in ((6, GROUP_ID_NOT_FOUND), (5, 0)):
        (group,) = (await world.ask(describe_groups.handle, ApiKey.DESCRIBE_GROUPS, body, version=version)).groups
        assert (group.error_code, group.group_state) == (error, "Dead")
    world.groups.replies[DescribeGroups] = NotCoordinator()
    (group,) = (await world.ask(describe_groups.handle, ApiKey.DESCRIBE_GROUPS, body)).groups
    assert (group.error_code, group.authorized_operations) == (NOT_COORDINATOR, -(2**31))


async def test_groups_are_listed_with_their_types_in_small_letters() -> None:
    world = node()
    world.groups.replies[ListGroups] = [
        ListedGroup(group_id="g", protocol_type="consumer", state="Stable", type="Classic")
    ]
    body = ListGroupsRequest(states_filter=("Stable",), types_filter=("classic",))
    reply = await world.ask(list_groups.handle, ApiKey.LIST_GROUPS, body)
    assert [(each.group_id, each.group_state, each.group_type) for each in reply.groups] == [("g", "Stable", "classic")]
    assert world.groups.asked == [ListGroups(states=frozenset({"Stable"}), types=frozenset({"classic"}))]
    world.groups.replies[ListGroups] = CoordinatorLoadInProgress()
    reply = await world.ask(list_groups.handle, ApiKey.LIST_GROUPS, body)
    assert (reply.error_code, reply.groups) == (CoordinatorLoadInProgress.code, ())


async def test_a_group_is_deleted_once_however_often_it_is_named() -> None:
    world = node()
    world.groups.replies[DeleteGroups] = (0,)
    body = DeleteGroupsRequest(groups_names=("g", "h", "g"))  # type: ignore[arg-type]
    reply = await world.ask(delete_groups.handle, ApiKey.DELETE_GROUPS, body)
    assert [(each.group_id, each.error_code) for each in reply.results] == [("g", 0), ("h", 0)]
    world.groups.replies[DeleteGroups] = NotCoordinator()
    reply = await world.ask(delete_groups.handle, ApiKey.DELETE_GROUPS, body)
    assert {each.error_code for each in reply.results} == {NOT_COORDINATOR}


# -- the consumer protocol -------------------------------------------------------------------


def beat(**changes: Any) -> ConsumerGroupHeartbeatRequest:
    wanted: dict[str, Any] = {"group_id": "g", "member_id": "m", "member_epoch": 3, "topic_partitions": None, **changes}
    return ConsumerGroupHeartbeatRequest(**wanted)


async def test_a_heartbeat_of_the_consumer_protocol_brings_an_assignment_or_none() -> None:
    world = node()
    world.groups.replies[ConsumerGroupHeartbeat] = ConsumerGroupHeartbeatReply(
        member_id="m", member_epoch=4, heartbeat_interval_ms=5000, assignment={ORDERS_ID: frozenset({1, 0})}
    )
    owned = (TopicPartitions(topic_id=ORDERS_ID, partitions=(0,)),)  # type: ignore[arg-type]
    reply = await world.ask(
        consumer_group_heartbeat.handle, ApiKey.CONSUMER_GROUP_HEARTBEAT, beat(topic_partitions=owned)
    )
    assert (reply.member_epoch, reply.heartbeat_interval.total_seconds()) == (4, 5)
    assert [(each.topic_id, each.partitions) for each in reply.assignment.topic_partitions] == [(ORDERS_ID, (0, 1))]
    assert world.groups.asked[0].topic_partitions == {ORDERS_ID: frozenset({0})}
    world.groups.replies[ConsumerGroupHeartbeat] = ConsumerGroupHeartbeatReply(member_id="m", member_epoch=4)
    reply = await world.ask(consumer_group_heartbeat.handle, ApiKey.CONSUMER_GROUP_HEARTBEAT, beat())
    assert reply.assignment is None and world.groups.asked[1].topic_partitions is None


async def test_the_consumer_protocol_can_be_switched_off() -> None:
    world = node()
    world.groups.serves_consumer_protocol = False
    reply = await world.ask(consumer_group_heartbeat.handle, ApiKey.CONSUMER_GROUP_HEARTBEAT, beat())
    assert reply.error_code == UNSUPPORTED_VERSION
    body = ConsumerGroupDescribeRequest(group_ids=("g",), include_authorized_operations=False)  # type: ignore[arg-type]
    (group,) = (await world.ask(consumer_group_describe.handle, ApiKey.CONSUMER_GROUP_DESCRIBE, body)).groups
    assert group.error_code == UNSUPPORTED_VERSION


async def test_a_group_of_the_consumer_protocol_is_described() -> None:
    world = node()
    owned = (DescribedPartitions(topic_id=ORDERS_ID, topic_name="orders", partitions=(0,)),)
    member = DescribedConsumerMember(
        member_id="m",
        instance_id=None,
        rack_id="r",
        member_epoch=3,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=("orders",),
        subscribed_topic_regex="",
        assignment=owned,
        target_assignment=(),
        member_type=1,
    )
    world.groups.replies[ConsumerGroupDescribe] = (
        DescribedConsumerGroup(group_id="g", group_state="Stable", group_epoch=3, members=(member,)),
    )
    body = ConsumerGroupDescribeRequest(group_ids=("g",), include_authorized_operations=True)  # type: ignore[arg-type]
    (group,) = (await world.ask(consumer_group_describe.handle, ApiKey.CONSUMER_GROUP_DESCRIBE, body)).groups
    assert (group.group_state, group.group_epoch, group.authorized_operations) == ("Stable", 3, 3400)
    (shown,) = group.members
    assert (shown.subscribed_topic_regex, shown.member_type, shown.rack_id) == ("", 1, "r")
    assert shown.assignment.topic_partitions[0].topic_name == "orders"
