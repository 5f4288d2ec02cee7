"""Commits, fetches, deletion and description of a consumer group, and its hash of the topics."""

from uuid import UUID

import pytest

from penstock.groups.consumer.commands import ConsumerGroupDescribe, DescribedPartitions
from penstock.groups.consumer.errors import StaleMemberEpoch
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.topics import Topics, describe
from penstock.groups.errors import NonEmptyGroup, UnknownMemberId
from penstock.metadata.delta import Delta
from penstock.metadata.image import BrokerImage, Image, PartitionImage, TopicImage
from penstock.model.ids import LeaderEpoch, NodeId, Offset, TopicName
from tests.unit.groups.groups_model import GROUP, GroupsModel, topic_id

FOO = topic_id("foo")

# Computed by the library that Kafka uses.
KAFKAS_HASH = 4104591724184854349
KAFKAS_HASH_WITHOUT_RACKS = 3814827245516331936
KAFKAS_GROUP_HASH = 4875436936000347299


def shared() -> GroupsModel:
    """Return a group of two members with two of four partitions each, at epoch 3; `a` had all of them at epoch 2."""
    world = GroupsModel({"foo": 4})
    world.join("a", "foo")
    world.join("b", "foo")
    world.beat("a", 2, owned={FOO: frozenset({0, 1})})
    world.beat("b", 3)
    return world


def test_a_commit_with_the_current_epoch_is_accepted() -> None:
    group = shared().group
    assert group.commit_check(member_id="a", instance_id=None, generation=3) is None


def test_a_commit_with_an_older_epoch_is_accepted_for_partitions_owned_since_then() -> None:
    check = shared().group.commit_check(member_id="a", instance_id=None, generation=2)
    assert check is not None
    check(FOO, 0)
    with pytest.raises(StaleMemberEpoch):
        check(FOO, 2)
    late = shared().group.commit_check(member_id="b", instance_id=None, generation=2)
    assert late is not None
    with pytest.raises(StaleMemberEpoch):
        late(FOO, 2)


@pytest.mark.parametrize(("member_id", "generation"), [("a", 4), ("x", 3), ("", -1)])
def test_other_commits_are_rejected(member_id: str, generation: int) -> None:
    with pytest.raises((StaleMemberEpoch, UnknownMemberId)):
        shared().group.commit_check(member_id=member_id, instance_id=None, generation=generation)


def test_commits_to_an_empty_group_and_in_transactions_need_no_member() -> None:
    assert ConsumerGroup(GROUP).commit_check(member_id="", instance_id=None, generation=-1) is None
    group = shared().group
    assert group.commit_check(member_id="", instance_id=None, generation=-1, is_transactional=True) is None


def test_partitions_being_revoked_may_still_be_committed() -> None:
    world = GroupsModel({"foo": 2})
    world.join("a", "foo")
    world.join("b", "foo")
    world.beat("a", 2, owned={FOO: frozenset({0, 1})})
    assert world.group.members["a"].revoking == {FOO: {1: 2}}
    assert world.group.commit_check(member_id="a", instance_id=None, generation=2) is None


def test_a_fetch_of_offsets_needs_the_current_epoch_or_no_member() -> None:
    group = shared().group
    group.check_fetch(member_id=None, member_epoch=-1)
    group.check_fetch(member_id="a", member_epoch=3)
    with pytest.raises(StaleMemberEpoch):
        group.check_fetch(member_id="a", member_epoch=2)
    with pytest.raises(UnknownMemberId):
        group.check_fetch(member_id="x", member_epoch=3)


def test_only_an_empty_group_may_be_deleted_and_leaves_no_records() -> None:
    world = shared()
    with pytest.raises(NonEmptyGroup):
        world.group.check_delete()
    world.beat("a", -1)
    world.beat("b", -1)
    world.group.check_delete()
    for record in world.group.tombstones():
        world.shard.apply(record)
    assert world.shard.groups == {}


def test_a_deleted_group_with_offsets_becomes_a_group_with_offsets_only() -> None:
    world = shared()
    world.shard.with_offsets.add(GROUP)
    for record in world.group.tombstones():
        world.shard.apply(record)
    assert world.shard.groups[GROUP].type == "Classic"
    assert world.shard.groups[GROUP].is_empty


def test_a_group_is_described_with_current_and_target_assignments() -> None:
    world = GroupsModel({"foo": 2})
    world.join("a", "foo", client_id="c", client_host="/h", rack_id="r")
    world.join("b", "foo", instance_id="i", server_assignor="range")
    world.beat("a", 2, owned={FOO: frozenset({0, 1})}, client_id="c", client_host="/h")
    group, missing = world.ask(ConsumerGroupDescribe((GROUP, "h")))
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Reconciling", 3, 3)
    assert group.assignor_name == "range"
    a, b = group.members
    assert (a.member_id, a.client_id, a.client_host, a.rack_id, a.member_epoch) == ("a", "c", "/h", "r", 2)
    assert a.assignment == (DescribedPartitions(topic_id=FOO, topic_name="foo", partitions=(0, 1)),)
    assert (b.instance_id, b.assignment, b.member_type) == ("i", (), 1)
    assert {a.target_assignment[0].partitions, b.target_assignment[0].partitions} == {(0,), (1,)}
    assert (missing.error, missing.error_message) == (69, "Group h not found.")


def test_a_description_shows_the_group_at_the_time_of_the_request() -> None:
    world = GroupsModel({"foo": 2})
    world.join("a", "foo")
    (group,) = world.ask(ConsumerGroupDescribe((GROUP,)))
    world.join("b", "foo")
    world.set_topics(foo=0)
    (member,) = group.members
    assert member.target_assignment == (DescribedPartitions(topic_id=FOO, topic_name="foo", partitions=(0, 1)),)


def test_replay_of_a_compacted_log_gives_the_same_group() -> None:
    world = shared()
    world.join("c", "foo", instance_id="i")
    world.beat("a", -1)
    world.compact()
    world.check()


# -- topics ----------------------------------------------------------------------------------


def image_of(*topics: TopicImage, offset: int = 1, racks: dict[int, str] | None = None) -> Image:
    brokers = {
        NodeId(node): BrokerImage(
            node_id=NodeId(node), epoch=1, incarnation_id=UUID(int=node), end_points=(), rack=rack, fenced=False
        )
        for node, rack in (racks or {}).items()
    }
    return Image(
        topics={topic.name: topic for topic in topics},
        topics_by_id={topic.id: topic for topic in topics},
        brokers=brokers,
        offset=Offset(offset),
    )


def topic(name: str, count: int, *, leader: int = 1) -> TopicImage:
    partition = PartitionImage(
        leader=NodeId(leader), leader_epoch=LeaderEpoch(leader), replicas=(NodeId(1), NodeId(2)), isr=(NodeId(1),)
    )
    return TopicImage(name=TopicName(name), id=UUID(int=(1 << 64) + 2), partitions=(partition,) * count)


def test_the_hash_is_the_one_that_kafka_4_3_computes() -> None:
    racks = image_of(racks={1: "b", 2: "a"}).brokers
    assert describe(topic("topic", 2), racks).hash == KAFKAS_HASH
    assert describe(topic("topic", 2), {}).hash == KAFKAS_HASH_WITHOUT_RACKS
    topics = Topics.of(image_of(topic("topic", 2), racks={1: "b", 2: "a"}))
    assert topics.hash_of(["topic", "none"]) == KAFKAS_GROUP_HASH
    assert topics.hash_of(["none"]) == 0


def test_an_irrelevant_change_gives_the_same_view() -> None:
    topics = Topics.of(image_of(topic("t", 2)))
    moved = topic("t", 2, leader=2)
    delta = Delta(before=image_of(topic("t", 2)), topics_changed=(moved,), partitions_changed={})
    assert topics.renewed(delta, image_of(moved, offset=2)) is topics


def test_new_partitions_and_new_or_deleted_topics_give_a_new_view() -> None:
    one = topic("t", 2)
    topics = Topics.of(image_of(one))
    more = topic("t", 3)
    grown = topics.renewed(
        Delta(before=image_of(one), topics_changed=(more,), partitions_changed={}), image_of(more, offset=2)
    )
    assert (grown.by_name["t"].partition_count, grown.version, grown.created_version) == (3, 2, 1)
    other = TopicImage(name=TopicName("u"), id=UUID(int=9))
    both = grown.renewed(
        Delta(before=image_of(more), topics_created=(other,), partitions_changed={}), image_of(more, other, offset=3)
    )
    assert (set(both.by_name), both.created_version) == ({"t", "u"}, 3)
    left = both.renewed(
        Delta(before=image_of(more, other), topics_deleted=(more,), partitions_changed={}), image_of(other, offset=4)
    )
    assert (set(left.by_name), set(left.by_id), left.version) == ({"u"}, {other.id}, 4)
