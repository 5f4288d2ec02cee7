"""ConsumerGroupHeartbeat: joining, reconciling, leaving, and its errors, step by step."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from penstock.groups.consumer.commands import ConsumerGroupHeartbeat
from penstock.groups.consumer.member import MemberState
from penstock.groups.consumer.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from penstock.groups.records import GroupRecord, encode
from tests.unit.groups.groups_model import GROUP, REBALANCE_MS, SESSION_MS, GroupsModel, topic_id

FOO = topic_id("foo")
BAR = topic_id("bar")

INVALID_REQUEST = 42
UNKNOWN_MEMBER_ID = 25
GROUP_ID_NOT_FOUND = 69
GROUP_MAX_SIZE_REACHED = 81
FENCED_INSTANCE_ID = 82
FENCED_MEMBER_EPOCH = 110
UNRELEASED_INSTANCE_ID = 111
UNSUPPORTED_ASSIGNOR = 112


def parts(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


# -- joining ---------------------------------------------------------------------------------


def test_the_first_member_gets_all_partitions_at_epoch_2_with_kafkas_records() -> None:
    world = GroupsModel({"foo": 3})
    reply = world.join("a", "foo", client_id="c", client_host="/h")
    assert (reply.error, reply.member_id, reply.member_epoch) == (0, "a", 2)
    assert reply.assignment == {FOO: parts(0, 1, 2)}
    assert reply.heartbeat_interval_ms == 5_000
    assert [type(record.key) for record in world.last] == [
        ConsumerGroupMemberMetadataKey,
        ConsumerGroupMetadataKey,
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupTargetAssignmentMetadataKey,
        ConsumerGroupCurrentMemberAssignmentKey,
    ]
    assert world.group.state_name == "Stable"


def test_a_heartbeat_without_changes_writes_nothing_and_extends_the_session() -> None:
    world = GroupsModel({"foo": 3})
    world.join("a", "foo")
    world.advance(SESSION_MS - 1)
    reply = world.beat("a", 2)
    assert (reply.member_epoch, reply.assignment, world.last) == (2, None, [])
    world.advance(SESSION_MS - 1)
    assert "a" in world.group.members
    world.advance(1)
    assert world.group.state_name == "Empty"


def test_a_second_member_waits_until_the_first_has_revoked_its_share() -> None:
    world = GroupsModel({"foo": 4})
    world.join("a", "foo")
    assert (joined := world.join("b", "foo")).assignment == {}
    assert joined.member_epoch == 3
    assert world.group.members["b"].state is MemberState.UNRELEASED_PARTITIONS
    assert world.group.state_name == "Reconciling"
    reply = world.beat("a", 2, owned={FOO: parts(0, 1, 2, 3)})
    assert (reply.member_epoch, reply.assignment) == (2, {FOO: parts(0, 1)})
    assert world.group.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    assert world.beat("b", 3).assignment is None
    assert world.beat("a", 2).member_epoch == 2, "the heartbeat does not report owned partitions"
    assert world.beat("a", 2, owned={FOO: parts(0, 1, 2)}).member_epoch == 2
    assert world.beat("a", 2, owned={FOO: parts(0, 1)}).member_epoch == 3
    assert world.beat("b", 3).assignment == {FOO: parts(2, 3)}
    assert world.group.state_name == "Stable"


def test_a_full_heartbeat_gets_a_full_reply() -> None:
    world = GroupsModel({"foo": 2})
    world.join("a", "foo")
    full = world.beat(
        "a", 2, owned={FOO: parts(0, 1)}, rebalance_timeout_ms=REBALANCE_MS, subscribed_topic_names=("foo",)
    )
    assert full.assignment == {FOO: parts(0, 1)}
    assert world.last == []


def test_a_member_without_an_id_gets_one_in_version_0() -> None:
    world = GroupsModel({"foo": 1})
    reply = world.join("", "foo", version=0, fresh_id=UUID(int=1))
    assert reply.member_id == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert list(world.group.members) == [reply.member_id]


def test_a_fenced_member_rejoins_with_its_id_and_keeps_its_partitions() -> None:
    world = GroupsModel({"foo": 2})
    world.join("a", "foo")
    again = world.join("a", "foo")
    assert (again.error, again.member_epoch, again.assignment) == (0, 2, {FOO: parts(0, 1)})
    assert world.last == []


def test_many_joins_within_the_assignment_interval_cause_one_assignment() -> None:
    world = GroupsModel({"foo": 4}, assignment_interval_ms=1_000)
    world.join("a", "foo")
    assert world.join("b", "foo").member_epoch == 2
    assert world.join("c", "foo").member_epoch == 2
    assert (world.group.epoch, world.group.assignment_epoch) == (4, 2)
    assert world.group.state_name == "Assigning"
    world.advance(1_000)
    world.beat("b", 2)
    assert world.group.assignment_epoch == 4


def test_an_old_record_of_partition_metadata_gets_a_tombstone() -> None:
    world = GroupsModel({"foo": 1})
    world.join("a", "foo")
    old = GroupRecord(ConsumerGroupPartitionMetadataKey(GROUP), ConsumerGroupPartitionMetadataValue(topics=()))
    world.log.append(encode(old))
    world.restart()
    world.beat("a", 2)
    assert world.last == [GroupRecord(ConsumerGroupPartitionMetadataKey(GROUP), None)]
    assert not world.group.has_partition_metadata


@pytest.mark.parametrize(
    ("votes", "winner"), [([], "uniform"), (["range"], "range"), (["range", "uniform"], "uniform")]
)
def test_the_assignor_that_most_members_request_is_used(votes: list[str], winner: str) -> None:
    world = GroupsModel({"foo": 1, "bar": 1})
    for index, vote in enumerate(votes or [""]):
        world.join(f"m{index}", "foo", "bar", server_assignor=vote or None)
    world.join("n", "foo", "bar")
    for _ in range(3):
        for member in list(world.group.members.values()):
            world.beat(member.id, member.epoch, owned=dict(world.group.targets[member.id]))
    sizes = sorted(sum(map(len, target.values())) for target in world.group.targets.values())
    # Range gives both topics' only partition to the first member, uniform one to each of two.
    assert (sizes[-1] == 2) == (winner == "range")


# -- refusals --------------------------------------------------------------------------------

JOIN = ConsumerGroupHeartbeat(
    group_id=GROUP,
    member_id="x",
    member_epoch=0,
    rebalance_timeout_ms=1_000,
    subscribed_topic_names=("foo",),
    topic_partitions={},
)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"group_id": ""}, INVALID_REQUEST),
        ({"group_id": "  "}, INVALID_REQUEST),
        ({"member_id": ""}, INVALID_REQUEST),
        ({"member_id": "", "version": 0, "member_epoch": 1}, INVALID_REQUEST),
        ({"member_id": "", "version": 0, "member_epoch": -1}, INVALID_REQUEST),
        ({"instance_id": ""}, INVALID_REQUEST),
        ({"rack_id": " "}, INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, INVALID_REQUEST),
        ({"topic_partitions": None}, INVALID_REQUEST),
        ({"topic_partitions": {FOO: parts(0)}}, INVALID_REQUEST),
        ({"subscribed_topic_names": None}, INVALID_REQUEST),
        ({"member_epoch": -2}, INVALID_REQUEST),
        ({"member_epoch": -3}, INVALID_REQUEST),
        ({"server_assignor": "other"}, UNSUPPORTED_ASSIGNOR),
        ({"member_epoch": 1}, UNKNOWN_MEMBER_ID),
        ({"member_epoch": -1}, UNKNOWN_MEMBER_ID),
        ({"member_epoch": 1, "group_id": "h"}, GROUP_ID_NOT_FOUND),
        ({"member_epoch": -1, "group_id": "h"}, GROUP_ID_NOT_FOUND),
        ({"member_epoch": 1, "instance_id": "i"}, UNKNOWN_MEMBER_ID),
        ({"member_epoch": -2, "instance_id": "i"}, UNKNOWN_MEMBER_ID),
        ({"member_id": "a"}, 0),
    ],
)
def test_invalid_heartbeats_and_unknown_members_are_rejected(change: dict[str, Any], error: int) -> None:
    world = GroupsModel({"foo": 1})
    world.join("a", "foo")
    before = len(world.log)
    reply = world.ask(replace(JOIN, **change))
    assert reply.error == error
    assert bool(reply.error_message) == bool(error)
    assert error == 0 or len(world.log) == before


def test_a_full_group_rejects_new_members_but_not_its_own() -> None:
    world = GroupsModel({"foo": 1}, size_max=1)
    world.join("a", "foo")
    assert world.join("b", "foo").error == GROUP_MAX_SIZE_REACHED
    assert world.join("a", "foo").error == 0
    assert world.beat("a", 2).error == 0


@pytest.mark.parametrize(
    ("epoch", "owned", "error"),
    [
        (4, None, FENCED_MEMBER_EPOCH),
        (3, None, 0),
        (2, None, FENCED_MEMBER_EPOCH),
        (2, {}, 0),
        (2, {FOO: parts(0, 1)}, 0),
        (2, {FOO: parts(0, 1, 2)}, FENCED_MEMBER_EPOCH),
        (2, {BAR: parts(0)}, FENCED_MEMBER_EPOCH),
        (1, {}, FENCED_MEMBER_EPOCH),
        (0, {}, 0),
    ],
)
def test_only_the_current_epoch_and_the_previous_one_after_a_lost_reply_are_accepted(
    epoch: int, owned: dict[UUID, frozenset[int]] | None, error: int
) -> None:
    world = GroupsModel({"foo": 4})
    world.join("a", "foo")
    world.join("b", "foo")
    world.beat("a", 2, owned={FOO: parts(0, 1)})
    member = world.group.members["a"]
    assert (member.epoch, member.previous_epoch) == (3, 2)
    more: dict[str, Any] = {}
    if epoch == 0:
        more = {"rebalance_timeout_ms": REBALANCE_MS, "subscribed_topic_names": ("foo",)}
    assert world.beat("a", epoch, owned=owned, **more).error == error


# -- leaving and timeouts --------------------------------------------------------------------


def test_partitions_of_a_member_that_leaves_are_immediately_available() -> None:
    world = GroupsModel({"foo": 2})
    world.join("a", "foo")
    world.join("b", "foo")
    reply = world.beat("a", -1)
    assert (reply.error, reply.member_id, reply.member_epoch) == (0, "a", -1)
    assert world.beat("b", 3).assignment == {FOO: parts(0, 1)}
    assert world.group.state_name == "Stable"
    assert not [key for key in world.timers if "a" in key]  # type: ignore[operator]


def test_a_member_that_does_not_revoke_partitions_in_time_is_removed() -> None:
    world = GroupsModel({"foo": 2}, session_timeout_ms=10 * REBALANCE_MS)
    world.join("a", "foo", rebalance_timeout_ms=5_000)
    world.join("b", "foo")
    world.beat("a", 2, owned={FOO: parts(0, 1)})
    world.advance(4_999)
    assert world.beat("a", 2, owned={FOO: parts(0, 1)}).error == 0
    world.advance(1)
    assert list(world.group.members) == ["b"]
    assert world.beat("a", 2).error == UNKNOWN_MEMBER_ID
    assert world.beat("b", 3).assignment == {FOO: parts(0, 1)}


def test_a_member_that_revokes_partitions_in_time_stays() -> None:
    world = GroupsModel({"foo": 2}, session_timeout_ms=10 * REBALANCE_MS)
    world.join("a", "foo", rebalance_timeout_ms=5_000)
    world.join("b", "foo")
    world.beat("a", 2, owned={FOO: parts(0, 1)})
    world.beat("a", 2, owned={FOO: parts(0)})
    world.advance(20_000)
    assert list(world.group.members) == ["a", "b"]


def test_a_restart_sets_the_timers_of_sessions_and_revocations() -> None:
    world = GroupsModel({"foo": 2}, session_timeout_ms=10 * REBALANCE_MS)
    world.join("a", "foo", rebalance_timeout_ms=5_000)
    world.join("b", "foo")
    world.beat("a", 2, owned={FOO: parts(0, 1)})
    world.restart()
    world.advance(5_000)
    assert list(world.group.members) == ["b"]
    world.advance(10 * REBALANCE_MS)
    assert world.group.is_empty


# -- static members --------------------------------------------------------------------------


def test_a_static_member_that_returns_with_another_id_does_not_affect_others() -> None:
    world = GroupsModel({"foo": 2})
    world.join("a", "foo", instance_id="i")
    world.join("b", "foo")
    world.beat("a", 2, owned={FOO: parts(0, 1)}, instance_id="i")
    world.beat("a", 2, owned={FOO: parts(0)}, instance_id="i")
    world.beat("b", 3)
    epoch = world.group.epoch
    left = world.beat("a", -2, instance_id="i")
    assert (left.error, left.member_epoch) == (0, -2)
    assert world.group.epoch == epoch
    back = world.join("a2", "foo", instance_id="i")
    assert (back.member_epoch, back.assignment) == (epoch, {FOO: parts(0)})
    assert world.group.epoch == epoch
    assert list(world.group.members) == ["b", "a2"]
    assert world.beat("a", epoch, instance_id="i").error == FENCED_INSTANCE_ID
    assert world.beat("b", 3).assignment is None


def test_an_instance_id_in_use_cannot_be_used_by_another_member() -> None:
    world = GroupsModel({"foo": 2})
    world.join("a", "foo", instance_id="i")
    assert world.join("a2", "foo", instance_id="i").error == UNRELEASED_INSTANCE_ID
    assert world.beat("a2", -2, instance_id="i").error == FENCED_INSTANCE_ID
    assert world.beat("a2", -1, instance_id="i").error == FENCED_INSTANCE_ID


def test_a_static_member_that_does_not_return_is_removed_when_its_session_expires() -> None:
    world = GroupsModel({"foo": 2})
    world.join("a", "foo", instance_id="i")
    world.join("b", "foo")
    world.beat("a", -2, instance_id="i")
    world.advance(SESSION_MS - 1)
    world.beat("b", 3)
    world.advance(1)
    assert list(world.group.members) == ["b"]
    assert world.group.instances == {}
    assert world.beat("b", 3).assignment == {FOO: parts(0, 1)}


def test_a_static_member_that_leaves_during_a_revocation_releases_the_partitions() -> None:
    world = GroupsModel({"foo": 2})
    world.join("a", "foo", instance_id="i", rebalance_timeout_ms=5_000)
    world.join("b", "foo")
    world.beat("a", 2, owned={FOO: parts(0, 1)}, instance_id="i")
    world.beat("a", -2, instance_id="i")
    assert world.beat("b", 3).assignment == {FOO: parts(1)}
    world.advance(6_000)
    assert "a" in world.group.members, "the revocation timer does not apply to a member that has left"
    back = world.join("a2", "foo", instance_id="i")
    assert back.assignment == {FOO: parts(0)}


def test_a_static_member_may_return_to_a_full_group_with_another_subscription() -> None:
    world = GroupsModel({"foo": 1, "bar": 1}, size_max=1)
    world.join("a", "foo", instance_id="i")
    world.beat("a", -2, instance_id="i")
    back = world.join("a2", "bar", instance_id="i")
    assert (back.error, back.assignment) == (0, {BAR: parts(0)})


# -- topics and subscriptions ----------------------------------------------------------------


def test_new_partitions_and_new_topics_reach_the_members() -> None:
    world = GroupsModel({"foo": 1})
    world.join("a", "foo", "bar")
    world.set_topics(foo=3)
    assert world.beat("a", 2).assignment == {FOO: parts(0, 1, 2)}
    world.set_topics(bar=1)
    assert world.beat("a", 3).assignment == {FOO: parts(0, 1, 2), BAR: parts(0)}
    world.set_topics(other=5)
    assert world.beat("a", 4).member_epoch == 4
    assert world.last == []


def test_partitions_of_a_deleted_topic_are_revoked() -> None:
    world = GroupsModel({"foo": 1, "bar": 1})
    world.join("a", "foo", "bar")
    world.set_topics(bar=0)
    reply = world.beat("a", 2, owned={FOO: parts(0), BAR: parts(0)})
    assert (reply.member_epoch, reply.assignment) == (2, {FOO: parts(0)})
    assert world.beat("a", 2, owned={FOO: parts(0)}).member_epoch == 3


def test_a_topic_created_again_is_another_topic() -> None:
    world = GroupsModel({"foo": 1})
    world.join("a", "foo")
    world.set_topics(foo=0)
    world.set_topics(foo=1)
    reply = world.beat("a", 2, owned={FOO: parts(0)})
    assert reply.assignment == {}
    assert world.beat("a", 2, owned={}).assignment == {topic_id("foo", 1): parts(0)}


def test_another_subscription_takes_effect_with_the_same_heartbeat() -> None:
    world = GroupsModel({"foo": 1, "bar": 1})
    world.join("a", "foo")
    reply = world.beat("a", 2, owned={FOO: parts(0)}, subscribed_topic_names=("bar",))
    assert (reply.member_epoch, reply.assignment) == (2, {})
    after = world.beat("a", 2, owned={})
    assert (after.member_epoch, after.assignment) == (3, {BAR: parts(0)})


def test_unsubscribed_topics_are_revoked_even_before_a_new_target() -> None:
    world = GroupsModel({"foo": 1, "bar": 1}, assignment_interval_ms=10_000)
    world.join("a", "foo", "bar")
    reply = world.beat("a", 2, owned={FOO: parts(0), BAR: parts(0)}, subscribed_topic_names=("bar",))
    assert (reply.member_epoch, reply.assignment) == (2, {BAR: parts(0)})
    assert world.group.assignment_epoch == 2
    assert world.group.members["a"].state is MemberState.UNREVOKED_PARTITIONS


def test_a_changed_rack_or_client_is_written_without_a_rebalance() -> None:
    world = GroupsModel({"foo": 1})
    world.join("a", "foo")
    world.beat("a", 2, rack_id="r", client_id="other")
    assert [type(record.key) for record in world.last] == [ConsumerGroupMemberMetadataKey]
    assert (world.group.members["a"].rack_id, world.group.epoch) == ("r", 2)
