"""Online migration of groups in both directions, and classic members in a consumer group."""

from struct import pack
from typing import Any
from uuid import UUID

import pytest

from penstock.groups.classic.group import ClassicGroup, State
from penstock.groups.commands import (
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinReply,
    LeaveGroup,
    LeaveReply,
    LeavingMember,
    SyncGroup,
    SyncReply,
)
from penstock.groups.consumer.commands import MigrationPolicy
from penstock.groups.consumer.embedded_protocol import Malformed, read_assignment, read_subscription, write_assignment
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.member import MemberState
from penstock.groups.records import GroupMetadataKey
from penstock.groups.turn import SESSION, TimerKey
from tests.unit.groups.groups_model import GROUP, GroupsModel, topic_id

FOO = topic_id("foo")
SESSION_MS = 10_000
REBALANCE_MS = 60_000

ILLEGAL_GENERATION = 22
INCONSISTENT_GROUP_PROTOCOL = 23
UNKNOWN_MEMBER_ID = 25
REBALANCE_IN_PROGRESS = 27
GROUP_ID_NOT_FOUND = 69
MEMBER_ID_REQUIRED = 79


def text(value: str) -> bytes:
    return pack(">h", len(value)) + value.encode()


def subscription(*topics: str, owned: tuple[int, ...] = (), version: int = 1, rack: str | None = None) -> bytes:
    out = pack(">hi", version, len(topics)) + b"".join(map(text, topics)) + pack(">i", -1)
    if version >= 1:
        out += pack(">i", bool(owned))
        if owned:
            out += text("foo") + pack(">i", len(owned)) + b"".join(pack(">i", number) for number in owned)
    if version >= 2:
        out += pack(">i", 7)
    if version >= 3:
        out += pack(">h", -1) if rack is None else text(rack)
    return out


def join(member_id: str = "", *, owned: tuple[int, ...] = (), fresh: int = 1, **more: Any) -> JoinGroup:
    values: dict[str, Any] = {
        "protocol_type": "consumer",
        "protocols": (("range", subscription("foo", owned=owned)),),
        "must_know_member_id": False,
        **more,
    }
    return JoinGroup(
        group_id=GROUP,
        member_id=member_id,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        fresh_id=UUID(int=fresh),
        **values,
    )


def sync(member_id: str, generation: int, **more: Any) -> SyncGroup:
    return SyncGroup(
        group_id=GROUP,
        member_id=member_id,
        generation=generation,
        protocol_type="consumer",
        protocol_name="range",
        **more,
    )


def beat(member_id: str, generation: int) -> Heartbeat:
    return Heartbeat(group_id=GROUP, member_id=member_id, generation=generation)


def classic_group(world: GroupsModel, *, instance_id: str | None = None) -> str:
    """Create a stable classic group with one member that owns all of foo; return its id."""
    ticket = world.send(join(instance_id=instance_id))
    world.settle()
    joined = world.replies.pop(ticket)
    assigned = write_assignment({"foo": frozenset({0, 1})}, like=subscription("foo"))
    synced = world.ask(sync(joined.member_id, 1, instance_id=instance_id, assignments=((joined.member_id, assigned),)))
    assert (synced.error, synced.assignment) == (0, assigned)
    assert isinstance(world.shard.groups[GROUP], ClassicGroup)
    member_id = joined.member_id
    assert isinstance(member_id, str)
    return member_id


# -- upgrade ---------------------------------------------------------------------------------


def test_the_first_consumer_member_upgrades_the_group_and_keeps_its_classic_members() -> None:
    world = GroupsModel({"foo": 2})
    old = classic_group(world)
    new = world.join("n", "foo")
    assert (new.error, new.member_epoch, new.assignment) == (0, 2, {})
    group = world.group
    assert (group.epoch, group.assignment_epoch, group.members[old].epoch) == (2, 2, 1)
    assert group.members[old].assigned == {FOO: {0: 1, 1: 1}}
    assert world.ask(beat(old, 1)) == HeartbeatReply(REBALANCE_IN_PROGRESS)
    # The member rejoins with all its partitions, is rejoined to revoke some, syncs, and rejoins without them.
    rejoined = world.ask(join(old, owned=(0, 1)))
    assert (rejoined.error, rejoined.generation, rejoined.protocol_name, rejoined.leader) == (0, 1, "range", "")
    left = read_assignment(world.ask(sync(old, 1)).assignment)["foo"]
    assert len(left) == 1
    assert world.ask(beat(old, 1)) == HeartbeatReply(REBALANCE_IN_PROGRESS)
    (kept,) = left
    again = world.ask(join(old, owned=(kept,)))
    assert again.generation == 2
    assert read_assignment(world.ask(sync(old, 2)).assignment) == {"foo": left}
    assert world.ask(beat(old, 2)) == HeartbeatReply(0)
    assert world.beat("n", 2).assignment == {FOO: frozenset({0, 1}) - left}
    assert group.state_name == "Stable"


def test_an_upgrade_subscribes_to_no_topics_that_the_joining_member_may_not_describe() -> None:
    world = GroupsModel({"foo": 2, "bar": 2})
    world.send(join(protocols=(("range", subscription("foo", "bar")),)))
    world.settle()
    assert world.join("n", "foo", describable=lambda names: names - {"bar"}).error == 0
    assert all(member.topic_names == {"foo"} for member in world.group.members.values())
    (old,) = world.group.members.keys() - {"n"}
    # A classic member rejoins with its own rights.
    world.ask(join(old, protocols=(("range", subscription("foo", "bar")),)))
    assert world.group.members[old].topic_names == {"foo", "bar"}


def test_a_classic_member_is_assigned_no_topics_that_it_may_not_describe() -> None:
    world = GroupsModel({"foo": 2, "bar": 2})
    world.join("n", "foo")
    both = (("range", subscription("foo", "bar")),)
    joined = world.ask(join(protocols=both, describable=lambda names: names - {"bar"}))
    assert world.group.members[joined.member_id].topic_names == {"foo"}
    assert topic_id("bar") not in world.group.targets[joined.member_id]


def test_a_classic_member_matches_expressions_only_with_topics_that_it_may_describe() -> None:
    world = GroupsModel({"foo": 2})
    hidden = frozenset({"fox"})
    world.join("n", subscribed_topic_regex="f.*", describable=lambda names: names - hidden)
    world.settle()
    world.set_topics(fox=1)
    world.advance(10_001)
    world.ask(join(describable=lambda names: names - hidden))
    world.settle()
    assert {name for resolved in world.group.resolved.values() for name in resolved.topics} == {"foo"}


def test_a_consumer_group_replaces_an_empty_classic_group() -> None:
    world = GroupsModel({"foo": 2})
    old = classic_group(world)
    world.ask(LeaveGroup(group_id=GROUP, members=(LeavingMember(member_id=old),)))
    assert world.join("n", "foo").assignment == {FOO: {0, 1}}
    assert isinstance(world.shard.groups[GROUP], ConsumerGroup)


def test_an_upgrade_makes_waiting_members_rejoin() -> None:
    world = GroupsModel({"foo": 2})
    old = classic_group(world)
    waiting = world.send(join(fresh=2))
    world.settle()
    assert waiting not in world.replies
    world.join("n", "foo")
    assert world.replies[waiting].error == REBALANCE_IN_PROGRESS
    assert old in world.group.members
    assert {key.kind for key in world.timers} <= {"consumer-session", "consumer-regex"}  # type: ignore[attr-defined]


def test_a_group_that_has_only_given_out_a_member_id_becomes_a_consumer_group() -> None:
    world = GroupsModel({"foo": 2})
    given = world.ask(join(must_know_member_id=True))
    assert given.error == MEMBER_ID_REQUIRED
    new = world.join("n", "foo")
    assert (new.error, new.member_epoch) == (0, 2)
    assert TimerKey(SESSION, GROUP, given.member_id) not in world.timers
    late = world.ask(join(given.member_id, must_know_member_id=True))
    assert (late.error, late.member_id) == (0, given.member_id)


def test_an_upgrade_restarts_the_first_rebalance_even_if_the_new_member_has_no_topics() -> None:
    world = GroupsModel({"foo": 2})
    waiting = world.send(join())
    world.join("n", subscribed_topic_regex="nothing.*")
    old = world.replies[waiting].member_id
    assert world.replies[waiting].error == REBALANCE_IN_PROGRESS
    joined = world.ask(join(old))
    assert (joined.error, joined.generation) == (0, 1)
    assert read_assignment(world.ask(sync(old, 1)).assignment) == {"foo": {0, 1}}


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
def test_a_policy_without_upgrade_rejects_consumer_members(policy: MigrationPolicy) -> None:
    world = GroupsModel({"foo": 2}, migration_policy=policy)
    classic_group(world)
    assert world.join("n", "foo").error == GROUP_ID_NOT_FOUND
    assert isinstance(world.shard.groups[GROUP], ClassicGroup)


def test_groups_of_other_types_too_large_or_with_user_data_are_not_upgraded() -> None:
    other = GroupsModel({"foo": 2})
    other.send(join(protocol_type="connect", protocols=(("compatible", b""),)))
    assert other.join("n", "foo").error == GROUP_ID_NOT_FOUND
    large = GroupsModel({"foo": 2}, size_max=0)
    classic_group(large)
    assert large.join("n", "foo").error == GROUP_ID_NOT_FOUND
    custom = GroupsModel({"foo": 2})
    old = classic_group(custom)
    data = write_assignment({}, like=subscription("foo"))[:-4] + pack(">i", 1) + b"x"
    ticket = custom.send(join(old, owned=(0, 1)))
    custom.settle()
    generation = custom.replies.pop(ticket).generation
    assert custom.ask(sync(old, generation, assignments=((old, data),))).error == 0
    assert custom.join("n", "foo").error == GROUP_ID_NOT_FOUND


def test_a_static_classic_member_returns_with_the_consumer_protocol() -> None:
    world = GroupsModel({"foo": 2})
    old = classic_group(world, instance_id="i")
    new = world.join("n", "foo", instance_id="i")
    assert (new.error, new.assignment) == (0, {FOO: {0, 1}})
    assert list(world.group.members) == ["n"]
    assert world.group.classic_count == 0
    assert old not in world.group.targets


# -- downgrade -------------------------------------------------------------------------------


def mixed(world: GroupsModel, **more: Any) -> str:
    """Create a group of a classic member and the consumer member `n`; return the id of the former."""
    old = classic_group(world)
    world.join("n", "foo", **more)
    world.ask(join(old, owned=(0,)))
    world.ask(sync(old, 2))
    world.beat("n", 2, owned={FOO: frozenset({1})})
    return old


def test_the_group_is_downgraded_and_rebalances_when_the_last_consumer_member_leaves() -> None:
    world = GroupsModel({"foo": 2})
    old = mixed(world)
    assert world.beat("n", -1).error == 0
    group = world.shard.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert (group.state, group.generation, list(group.members)) == (State.PREPARING, 2, [old])
    assert world.last[-1].key == GroupMetadataKey(GROUP)
    assert world.ask(beat(old, 2)) == HeartbeatReply(REBALANCE_IN_PROGRESS)
    ticket = world.send(join(old, owned=(0,)))
    world.settle()
    joined = world.replies.pop(ticket)
    assert (joined.generation, joined.leader) == (3, old)
    world.restart()
    restored = world.shard.groups[GROUP]
    assert isinstance(restored, ClassicGroup)
    assert restored.state is State.PREPARING, "the restart forgot the pending rebalance"
    assert read_assignment(restored.members[old].assignment) == {"foo": {0}}


def test_the_group_is_downgraded_when_the_session_of_the_last_consumer_member_expires() -> None:
    world = GroupsModel({"foo": 2}, session_timeout_ms=5_000)
    mixed(world)
    world.advance(5_000)
    assert isinstance(world.shard.groups[GROUP], ClassicGroup)


@pytest.mark.parametrize(
    "settings", [{"migration_policy": MigrationPolicy.UPGRADE}, {"classic_size_max": 0}, {"classic_size_max": 1}]
)
def test_a_group_that_may_not_be_downgraded_stays_a_consumer_group(settings: dict[str, Any]) -> None:
    world = GroupsModel({"foo": 2}, **settings)
    old = mixed(world)
    world.beat("n", -1)
    stays = settings.get("classic_size_max") != 1
    assert isinstance(world.shard.groups[GROUP], ConsumerGroup) == stays
    if stays:
        assert world.ask(join(old, owned=(0,))).generation == 3
        assert read_assignment(world.ask(sync(old, 3)).assignment) == {"foo": {0, 1}}


def test_classic_members_take_over_partitions_without_a_member_of_the_consumer_protocol() -> None:
    world = GroupsModel({"foo": 2}, migration_policy=MigrationPolicy.UPGRADE)
    old = mixed(world)
    world.beat("n", -1)
    assert world.ask(beat(old, 2)) == HeartbeatReply(REBALANCE_IN_PROGRESS)
    assert world.ask(join(old, owned=(0,))).generation == 3
    assert read_assignment(world.ask(sync(old, 3)).assignment) == {"foo": {0, 1}}
    world.set_topics(foo=3)
    assert world.ask(beat(old, 3)) == HeartbeatReply(REBALANCE_IN_PROGRESS)
    assert world.ask(join(old, owned=(0, 1))).generation == 4
    assert read_assignment(world.ask(sync(old, 4)).assignment) == {"foo": {0, 1, 2}}
    assert world.ask(beat(old, 4)) == HeartbeatReply(0)


def test_a_classic_member_rejoins_when_the_interval_between_assignments_has_passed() -> None:
    world = GroupsModel({"foo": 2}, migration_policy=MigrationPolicy.UPGRADE, assignment_interval_ms=5_000)
    old = mixed(world)
    world.beat("n", -1)
    assert world.ask(beat(old, 2)) == HeartbeatReply(0)
    world.advance(5_000)
    assert world.ask(beat(old, 2)) == HeartbeatReply(REBALANCE_IN_PROGRESS)
    assert world.ask(join(old, owned=(0,))).generation == 3


@pytest.mark.parametrize("announces_leave", [True, False])
def test_the_last_consumer_member_can_return_as_a_classic_static_member(announces_leave: bool) -> None:
    world = GroupsModel({"foo": 2})
    old = mixed(world, instance_id="i")
    if announces_leave:
        world.beat("n", -2, instance_id="i")
    joined = world.ask(join(instance_id="i", fresh=9))
    group = world.shard.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert (joined.error, joined.generation, group.state) == (0, 2, State.STABLE)
    assert set(group.members) == {old, joined.member_id}
    got = world.ask(sync(joined.member_id, 2, instance_id="i"))
    assert read_assignment(got.assignment) == {"foo": {1}}


def test_a_classic_group_replaces_an_empty_consumer_group() -> None:
    world = GroupsModel({"foo": 2})
    world.join("n", "foo")
    world.beat("n", -1)
    classic_group(world)
    world.restart()
    assert isinstance(world.shard.groups[GROUP], ClassicGroup)


# -- classic members in a consumer group -----------------------------------------------------


def test_a_classic_member_joins_a_consumer_group() -> None:
    world = GroupsModel({"foo": 2})
    world.join("n", "foo")
    required = world.ask(join(must_know_member_id=True))
    assert required.error == MEMBER_ID_REQUIRED and required.member_id
    joined = world.ask(join(required.member_id))
    assert (joined.error, joined.generation) == (0, 3)
    member = world.group.members[required.member_id]
    assert member.state is MemberState.UNRELEASED_PARTITIONS
    assert read_assignment(world.ask(sync(member.id, 3)).assignment) == {}
    assert world.ask(beat(member.id, 3)) == HeartbeatReply(0), "it waits for the other member"
    world.beat("n", 2, owned={FOO: frozenset({0, 1})})
    world.beat("n", 2, owned={FOO: frozenset({0})})
    assert world.ask(beat(member.id, 3)) == HeartbeatReply(REBALANCE_IN_PROGRESS), "now it is free"
    world.ask(join(member.id))
    assert read_assignment(world.ask(sync(member.id, 3)).assignment) == {"foo": {1}}


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        (sync("x", 3), SyncReply(error=UNKNOWN_MEMBER_ID)),
        (sync("n", 2), SyncReply(error=UNKNOWN_MEMBER_ID)),
        (sync("c", 9), SyncReply(error=ILLEGAL_GENERATION)),
        (beat("x", 3), HeartbeatReply(UNKNOWN_MEMBER_ID)),
        (beat("n", 2), HeartbeatReply(UNKNOWN_MEMBER_ID)),
        (beat("c", 9), HeartbeatReply(ILLEGAL_GENERATION)),
        (
            SyncGroup(group_id=GROUP, member_id="c", generation=3, protocol_type="consumer", protocol_name="other"),
            SyncReply(error=INCONSISTENT_GROUP_PROTOCOL),
        ),
        (join("d", protocol_type="connect"), JoinReply(error=INCONSISTENT_GROUP_PROTOCOL, member_id="d")),
        (join("d", protocols=(("sticky", b"?"),)), JoinReply(error=INCONSISTENT_GROUP_PROTOCOL, member_id="d")),
        (join("d", protocols=(("range", b"?"),)), JoinReply(error=INCONSISTENT_GROUP_PROTOCOL, member_id="d")),
        (join("d", instance_id="j"), JoinReply(error=UNKNOWN_MEMBER_ID, member_id="d")),
        (
            LeaveGroup(
                group_id=GROUP, members=(LeavingMember(member_id="x"), LeavingMember(instance_id="j", member_id=""))
            ),
            LeaveReply(errors=(UNKNOWN_MEMBER_ID, UNKNOWN_MEMBER_ID)),
        ),
    ],
)
def test_invalid_requests_of_classic_members_are_rejected(command: Any, reply: Any) -> None:
    world = GroupsModel({"foo": 2})
    world.join("n", "foo")
    world.ask(join("c"))
    before = len(world.log)
    assert world.ask(command) == reply
    assert len(world.log) == before


def test_a_classic_member_that_does_not_join_or_sync_in_time_is_removed() -> None:
    late_to_sync = GroupsModel({"foo": 2}, session_timeout_ms=10 * REBALANCE_MS)
    late_to_sync.join("n", "foo")
    late_to_sync.ask(join("c"))
    for _ in range(7):
        late_to_sync.ask(beat("c", 3))
        late_to_sync.advance(9_000)
    assert list(late_to_sync.group.members) == ["n"]

    late_to_join = GroupsModel({"foo": 2}, session_timeout_ms=10 * REBALANCE_MS)
    late_to_join.join("n", "foo")
    late_to_join.ask(join("c"))
    late_to_join.ask(sync("c", 3))
    late_to_join.join("m", "foo")
    for _ in range(7):
        late_to_join.ask(beat("c", 3))
        late_to_join.advance(9_000)
    assert list(late_to_join.group.members) == ["n", "m"]


def test_members_of_either_protocol_are_removed_by_an_administrator() -> None:
    world = GroupsModel({"foo": 2})
    world.join("n", "foo", instance_id="i")
    world.join("m", "foo")
    reply = world.ask(
        LeaveGroup(group_id=GROUP, members=(LeavingMember(instance_id="i"), LeavingMember(member_id="m")))
    )
    assert reply == LeaveReply(errors=(0, 0))
    assert world.group.is_empty


def test_a_disabled_policy_rejects_classic_members() -> None:
    world = GroupsModel({"foo": 2}, migration_policy=MigrationPolicy.DISABLED)
    world.join("n", "foo")
    assert world.ask(join()).error == INCONSISTENT_GROUP_PROTOCOL


# -- the embedded protocol -------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2, 3, 9])
def test_subscriptions_of_all_versions_are_read(version: int) -> None:
    found = read_subscription(subscription("foo", "bar", owned=(1, 2), version=version, rack="r"))
    assert found.topics == ("foo", "bar")
    assert found.owned == ({"foo": {1, 2}} if version >= 1 else {})
    assert found.rack_id == ("r" if version >= 3 else None)


@pytest.mark.parametrize("size", range(len(subscription("foo", owned=(1,), version=3, rack="r"))))
def test_a_subscription_cut_short_is_malformed(size: int) -> None:
    with pytest.raises(Malformed):
        read_subscription(subscription("foo", owned=(1,), version=3, rack="r")[:size])


@pytest.mark.parametrize("data", [pack(">h", -1), pack(">hi", 1, 1 << 30), pack(">hih", 1, 1, 1) + b"\xff"])
def test_an_inconsistent_subscription_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        read_subscription(data)
