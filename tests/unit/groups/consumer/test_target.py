"""Target assignments of large groups: computed as an action, written in parts, and given up if the group changes."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from penstock.groups.consumer import target, update
from penstock.groups.consumer.member import ConsumerMember
from penstock.groups.consumer.records import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from penstock.groups.consumer.target import AssignTarget, TargetAssigned, assigning
from penstock.model.job import finish
from tests.unit.groups.groups_model import GROUP, GroupsModel, topic_id, topics_of

FOO = topic_id("foo")
LIMIT = 2


@pytest.fixture
def small_limit() -> Iterator[None]:
    with patch.object(target, "MEMBERS_AT_ONCE_MAX", LIMIT), patch.object(update, "MEMBERS_AT_ONCE_MAX", LIMIT):
        yield


def names(count: int) -> list[str]:
    return [f"member-{number:05d}" for number in range(count)]


def computed(member_count: int, partition_count: int) -> list[TargetAssigned]:
    members = {name: ConsumerMember(id=name, topic_names=frozenset({"foo"})) for name in names(member_count)}
    action = AssignTarget(
        group_id=GROUP, epoch=7, assignor="uniform", members=members, targets={}, resolved={},
        topics=topics_of(1, {"foo": partition_count}),
    )  # fmt: skip
    return finish(assigning(action))


def test_no_part_is_large_however_many_members_there_are() -> None:
    parts = computed(10_000, 500)
    assert [part.is_last for part in parts] == [False] * (len(parts) - 1) + [True]
    assert max(len(part.targets) for part in parts) == target.MEMBERS_AT_ONCE_MAX
    assert [one.member_id for part in parts for one in part.targets] == names(10_000)
    given = [number for part in parts for one in part.targets for number in one.assignment.get(FOO, ())]
    assert sorted(given) == list(range(500))


def test_no_part_is_large_however_many_partitions_there_are() -> None:
    parts = computed(100, 50_000)
    sizes = [sum(len(one.assignment[FOO]) for one in part.targets) for part in parts if part.targets]
    assert sum(sizes) == 50_000
    assert max(sizes) == target.PARTITIONS_AT_ONCE_MAX


def test_the_members_of_a_large_group_get_their_partitions_after_the_last_part(small_limit: None) -> None:
    world = GroupsModel({"foo": 4})
    for name in "abc":
        world.join(name, "foo")
    epoch = world.group.assignment_epoch
    reply = world.join("d", "foo")
    assert reply.assignment == {}
    assert not [key for key, _ in world.last if isinstance(key, ConsumerGroupTargetAssignmentMemberKey)]
    world.write_part()
    assert world.group.assignment_epoch == epoch
    assert world.group.state_name == "Assigning"
    world.write_parts()
    assert isinstance(world.last[-1].key, ConsumerGroupTargetAssignmentMetadataKey)
    assert world.group.assignment_epoch == world.group.epoch
    assert all(len(assignment[FOO]) == 1 for assignment in world.group.targets.values())


def test_one_target_is_computed_at_a_time(small_limit: None) -> None:
    world = GroupsModel({"foo": 4})
    for name in "abcdef":
        world.join(name, "foo")
    assert len(world.computed) == 1
    world.write_parts()
    assert world.group.state_name == "Assigning"
    world.join("a", "foo")
    world.write_parts()
    assert world.group.assignment_epoch == world.group.epoch


def test_a_target_that_failed_is_computed_again(small_limit: None) -> None:
    world = GroupsModel({"foo": 4})
    for name in "abcd":
        world.join(name, "foo")
    world.fail_assignment()
    assert world.group.state_name == "Assigning"
    world.join("a", "foo")
    world.write_parts()
    assert world.group.assignment_epoch == world.group.epoch


def test_a_member_that_left_gets_no_target(small_limit: None) -> None:
    world = GroupsModel({"foo": 4})
    for name in "abcd":
        world.join(name, "foo")
    world.beat("b", -1)
    world.write_parts()
    assert "b" not in world.group.targets
    assert world.group.state_name == "Assigning"


def test_a_new_process_of_a_static_member_gets_its_target(small_limit: None) -> None:
    world = GroupsModel({"foo": 4})
    for name in "abcd":
        world.join(name, "foo", instance_id=f"instance-{name}")
    world.beat("d", -2, instance_id="instance-d")
    world.join("new", "foo", instance_id="instance-d")
    world.write_parts()
    assert set(world.group.targets) == set(world.group.members) == {"a", "b", "c", "new"}
    assert len(world.group.targets["new"][FOO]) == 1


def test_a_restart_in_the_middle_of_a_target_computes_another_one(small_limit: None) -> None:
    world = GroupsModel({"foo": 4})
    for name in "abcd":
        world.join(name, "foo")
    world.write_part()
    world.restart()
    world.join("a", "foo")
    world.write_parts()
    assert world.group.assignment_epoch == world.group.epoch
    world.group.validate()
