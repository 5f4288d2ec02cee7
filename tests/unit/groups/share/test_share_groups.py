"""Share groups in a shard: members, epochs, assignment, state of partitions, replay."""

from typing import Any
from uuid import UUID

import pytest

from penstock.coordinator.decision import Expired, ShardDecision, SharedDecision, Ticket
from penstock.groups.commands import DeleteGroups, ForgetTopics, JoinGroup, ListGroups
from penstock.groups.consumer.topics import Topic, Topics
from penstock.groups.errors import GroupIdNotFound
from penstock.groups.records import GroupRecord
from penstock.groups.settings import GroupSettings
from penstock.groups.shard import GroupShard
from penstock.groups.share.commands import (
    STATE_EXISTS,
    AlterShareOffsets,
    DeleteShareOffsets,
    DescribedShareGroup,
    InitializeShareState,
    ReadSharePartitions,
    ShareGroupDescribe,
    ShareGroupHeartbeat,
    ShareGroupHeartbeatReply,
    ShareGroupSettings,
    ShareOffsetsAltered,
    ShareOffsetsDeleted,
    ShareStateInitialized,
    ShareStateReply,
    initialize_timer,
    session_timer,
)
from penstock.groups.share.group import ShareGroup

A, B = UUID(int=1), UUID(int=2)
INCONSISTENT, UNKNOWN_MEMBER, INVALID, NON_EMPTY, NOT_FOUND, FULL, FENCED = 23, 25, 42, 68, 69, 81, 110


def topics(**counts: int) -> Topics:
    found = [
        Topic(name=name, id={"a": A, "b": B}[name], partition_count=count, hash=count + 100 * len(name))
        for name, count in counts.items()
    ]
    return Topics(by_name={t.name: t for t in found}, by_id={t.id: t for t in found}, version=sum(counts.values()))


class Harness:
    """Runs a shard as the runtime does, with a log in memory."""

    def __init__(self, size_max: int = 3, **counts: int) -> None:
        settings = ShareGroupSettings(size_max=size_max)
        self.shard = GroupShard(GroupSettings(), share_settings_of=lambda group_id: settings)
        self.see(**(counts or {"a": 2}))
        self.now = 10_000
        self.log: list[GroupRecord] = []
        self.actions: list[Any] = []
        self.timers: dict[Any, int | None] = {}

    def see(self, **counts: int) -> None:
        self.shard.shares.topics = self.shard.consumers.topics = topics(**counts)

    def ask(self, command: Any) -> Any:
        decided = self.shard.decide(command, ticket=Ticket(1), now=self.now)
        decision = decided.alone(Ticket(1)) if isinstance(decided, SharedDecision) else decided
        assert isinstance(decision, ShardDecision)
        for record in decision.records:
            assert self.shard.decode(*self.shard.encode(record)) == record
            self.log.append(record)
            self.shard.apply(record)
        self.actions = decision.actions
        self.timers.update(decision.timers)
        self.check_replay()
        return decision.replies[0][1] if decision.replies else None

    def check_replay(self) -> None:
        shard = GroupShard(GroupSettings())
        for record in self.log:
            shard.apply(record)
        assert {group_id: state_of(group) for group_id, group in shard.groups.items()} == {
            group_id: state_of(group) for group_id, group in self.shard.groups.items()
        }

    def beat(self, member: str, epoch: int, *names: str, **options: Any) -> ShareGroupHeartbeatReply:
        reply: ShareGroupHeartbeatReply = self.ask(
            ShareGroupHeartbeat(
                group_id="g", member_id=member, member_epoch=epoch, subscribed_topic_names=names or None, **options
            )
        )
        return reply

    def initialize(self) -> None:
        """Perform the actions of the last command."""
        for action in self.actions:
            assert isinstance(action, InitializeShareState)
            self.ask(ShareStateInitialized(action.group_id, action.partitions))

    def joined(self, member: str = "m", *names: str) -> ShareGroupHeartbeatReply:
        self.now += 1_000
        reply = self.beat(member, 0, *(names or ("a",)))
        assert reply.error == 0
        self.initialize()
        self.now += 1_000
        return self.beat(member, reply.member_epoch)

    @property
    def group(self) -> ShareGroup:
        group = self.shard.shares.find("g")
        assert group is not None
        return group


def state_of(group: Any) -> Any:
    return {name: getattr(group, name) for name in ShareGroup.__slots__}


def test_a_member_gets_partitions_once_their_state_is_initialized() -> None:
    harness = Harness()
    first = harness.beat("m", 0, "a")
    assert (first.error, first.member_epoch, first.assignment, first.is_initializing) == (0, 2, {}, True)
    assert harness.actions == [InitializeShareState("g", 2, {A: frozenset({0, 1})})]
    assert harness.timers[initialize_timer("g")] == 30_000
    assert harness.timers[session_timer("g", "m")] == 45_000
    harness.initialize()
    second = harness.beat("m", 2)
    assert (second.member_epoch, second.assignment, second.is_initializing) == (3, {A: frozenset({0, 1})}, False)
    third = harness.beat("m", 3)
    assert (third.member_epoch, third.assignment) == (3, None), "nothing has changed"


def test_members_share_partitions() -> None:
    harness = Harness()
    for member in ("x", "y", "z"):
        harness.joined(member)
    assignments = []
    for member in ("x", "y", "z"):
        harness.now += 1_000
        harness.beat(member, harness.group.members[member].epoch)
        assignments.append(harness.group.members[member].assigned)
    assert all(sum(map(len, assignment.values())) >= 1 for assignment in assignments)
    assert {index for assignment in assignments for index in assignment[A]} == {0, 1}


def test_assignments_have_a_minimum_interval_unless_the_clock_was_set_back() -> None:
    harness = Harness()
    epoch = harness.joined("x").member_epoch
    harness.now += 10
    assert harness.beat("y", 0, "a").assignment == {}, "too soon"
    harness.now -= 1_000_000
    assert harness.beat("x", epoch).assignment is not None


def test_the_previous_epoch_is_accepted_and_others_are_fenced() -> None:
    harness = Harness()
    reply = harness.joined()
    assert harness.beat("m", reply.member_epoch - 1).error == 0
    assert harness.beat("m", reply.member_epoch + 1).error == FENCED
    assert harness.beat("m", reply.member_epoch - 2).error in (FENCED, 0)
    assert harness.beat("other", 3).error == UNKNOWN_MEMBER


@pytest.mark.parametrize(
    "fields",
    [
        {"member_id": ""},
        {"group_id": " "},
        {"rack_id": ""},
        {"subscribed_topic_names": None},
        {"subscribed_topic_names": ()},
        {"member_epoch": -2},
    ],
)
def test_requests_are_checked(fields: dict[str, Any]) -> None:
    given: dict[str, Any] = {"group_id": "g", "member_id": "m", "member_epoch": 0, "subscribed_topic_names": ("a",)}
    harness = Harness()
    assert harness.ask(ShareGroupHeartbeat(**{**given, **fields})).error == INVALID
    assert harness.log == []


def test_a_group_has_a_maximum_size() -> None:
    harness = Harness(size_max=1)
    harness.joined()
    assert harness.beat("other", 0, "a").error == FULL
    assert harness.beat("m", 0, "a").error == 0, "a member may join again"


def test_an_unknown_group_is_not_found() -> None:
    harness = Harness()
    assert harness.beat("m", 1).error == NOT_FOUND
    assert harness.beat("m", -1).error == NOT_FOUND


def test_a_member_leaves_and_the_rest_takes_over() -> None:
    harness = Harness()
    harness.joined("x")
    harness.joined("y")
    epoch = harness.group.epoch
    reply = harness.beat("x", -1)
    assert (reply.error, reply.member_epoch) == (0, -1)
    assert harness.group.epoch == epoch + 1
    harness.now += 1_000
    assert harness.beat("y", harness.group.members["y"].epoch).assignment == {A: frozenset({0, 1})}
    harness.beat("y", -1)
    assert harness.group.state_name == "Empty"


def test_a_silent_member_is_removed() -> None:
    harness = Harness()
    harness.joined()
    harness.ask(Expired(session_timer("g", "m")))
    assert harness.group.is_empty
    harness.ask(Expired(session_timer("g", "m")))


def test_new_partitions_are_initialized_and_assigned() -> None:
    harness = Harness()
    epoch = harness.joined().member_epoch
    harness.see(a=4)
    reply = harness.beat("m", epoch)
    assert reply.is_initializing
    assert harness.actions[0].partitions == {A: frozenset({2, 3})}
    harness.initialize()
    harness.now += 1_000
    assert harness.beat("m", reply.member_epoch).assignment == {A: frozenset(range(4))}


def test_a_changed_subscription_changes_the_assignment() -> None:
    harness = Harness(a=1, b=1)
    epoch = harness.joined().member_epoch
    harness.now += 1_000
    reply = harness.beat("m", epoch, "b")
    assert reply.assignment == {}
    harness.initialize()
    harness.now += 1_000
    assert harness.beat("m", reply.member_epoch).assignment == {B: frozenset({0})}


def test_initialization_is_repeated_until_it_succeeds() -> None:
    harness = Harness()
    harness.beat("m", 0, "a")
    (action,) = harness.actions
    harness.beat("m", 2)
    assert harness.actions == [], "a request is on its way"
    harness.ask(Expired(initialize_timer("g")))
    assert harness.actions[0].partitions == action.partitions
    loaded = harness.shard.loaded(0)
    assert loaded.actions[0].partitions == action.partitions, "a new coordinator continues"
    harness.ask(ShareStateInitialized("g", action.partitions))
    harness.ask(Expired(initialize_timer("g")))
    assert harness.actions == []


def test_a_loaded_group_gives_its_members_new_sessions() -> None:
    harness = Harness()
    harness.joined()
    assert harness.shard.loaded(0).timers[session_timer("g", "m")] == 45_000


def test_groups_are_described_and_listed() -> None:
    harness = Harness()
    harness.joined()
    described: tuple[DescribedShareGroup, ...] = harness.ask(ShareGroupDescribe(("g", "missing", "")))
    assert (described[0].group_state, described[0].assignor_name) == ("Stable", "simple")
    (member,) = described[0].members
    assert (member.subscribed_topic_names, member.assignment[0].partitions) == (("a",), (0, 1))
    assert [group.error for group in described] == [0, NOT_FOUND, 24]
    (listed,) = harness.ask(ListGroups(types=frozenset({"share"})))
    assert (listed.type, listed.protocol_type, listed.state) == ("Share", "share", "Stable")


def test_offsets_of_an_empty_group_are_altered_in_a_new_state_epoch() -> None:
    harness = Harness()
    harness.joined()
    assert harness.ask(AlterShareOffsets("g")).error == NON_EMPTY
    harness.beat("m", -1)
    epoch = harness.group.epoch
    reply: ShareStateReply = harness.ask(AlterShareOffsets("g"))
    assert (reply.error, reply.state_epoch) == (0, epoch + 1)
    created: ShareStateReply = harness.ask(AlterShareOffsets("new"))
    assert (created.error, created.state_epoch) == (0, 2)


def test_offsets_of_an_empty_group_are_deleted() -> None:
    harness = Harness(a=2, b=1)
    harness.joined("m", "a", "b")
    assert harness.ask(DeleteShareOffsets("g", frozenset({A}))).error == NON_EMPTY
    harness.beat("m", -1)
    reply: ShareStateReply = harness.ask(DeleteShareOffsets("g", frozenset({A})))
    assert reply.partitions == {A: frozenset({0, 1})}
    assert (set(harness.group.state.initialized), harness.group.state.deleting) == ({B}, frozenset({A}))
    assert harness.ask(DeleteShareOffsets("g", frozenset({A}))).partitions == reply.partitions, "a retry"
    harness.ask(ShareOffsetsDeleted("g", frozenset({A})))
    assert harness.group.state.deleting == frozenset()
    assert harness.ask(DeleteShareOffsets("missing", None)).error == NOT_FOUND


def test_deleted_topics_are_forgotten() -> None:
    harness = Harness(a=1, b=1)
    epoch = harness.joined("m", "a", "b").member_epoch
    harness.see(b=1)
    harness.ask(ForgetTopics((("a", A),)))
    assert harness.group.state.initialized == {B: frozenset({0})}
    harness.now += 1_000
    assert harness.beat("m", epoch).assignment == {B: frozenset({0})}
    assert harness.ask(ReadSharePartitions("g")).partitions == {B: frozenset({0})}


def test_an_initialization_that_ends_after_the_deletion_of_the_state_has_no_effect() -> None:
    harness = Harness()
    harness.beat("m", 0, "a")
    initialization = harness.actions
    harness.beat("m", -1)
    assert harness.ask(DeleteShareOffsets("g", None)).partitions == {A: frozenset({0, 1})}
    harness.actions = initialization
    harness.initialize()
    harness.ask(ShareOffsetsDeleted("g", frozenset({A})))
    assert harness.ask(DeleteGroups(("g",))) == (0,)


def test_an_initialization_that_ends_after_the_deletion_of_the_topic_has_no_effect() -> None:
    harness = Harness()
    harness.beat("m", 0, "a")
    initialization = harness.actions
    harness.see(b=1)
    harness.ask(ForgetTopics((("a", A),)))
    harness.actions = initialization
    harness.initialize()
    assert not harness.group.has_state


def test_state_that_is_initialized_while_it_is_being_deleted_is_initialized_again() -> None:
    harness = Harness()
    harness.joined()
    harness.beat("m", -1)
    harness.ask(DeleteShareOffsets("g", frozenset({A})))
    epoch = harness.joined().member_epoch
    assert harness.group.state.initialized == {A: frozenset({0, 1})}
    harness.ask(ShareOffsetsDeleted("g", frozenset({A})))
    assert harness.beat("m", epoch).is_initializing
    harness.initialize()
    assert harness.group.state.initialized == {A: frozenset({0, 1})}


def test_new_offsets_are_state_of_a_group_that_had_none() -> None:
    harness = Harness()
    harness.ask(AlterShareOffsets("g"))
    harness.ask(ShareOffsetsAltered("g", {A: frozenset({1})}))
    assert harness.group.state.initialized == {A: frozenset({1})}
    harness.ask(ShareOffsetsAltered("missing", {A: frozenset({1})}))


def test_state_of_a_topic_that_is_gone_does_not_keep_a_group() -> None:
    harness = Harness()
    harness.joined()
    harness.beat("m", -1)
    harness.see(b=1)
    assert harness.ask(DeleteShareOffsets("g", None)).partitions == {}
    assert harness.ask(DeleteGroups(("g",))) == (0,)


def test_a_group_without_members_can_be_deleted_and_created_again() -> None:
    harness = Harness()
    harness.joined()
    assert harness.ask(DeleteGroups(("g",))) == (NON_EMPTY,)
    harness.beat("m", -1)
    assert harness.ask(DeleteGroups(("g",))) == (STATE_EXISTS,)
    harness.ask(DeleteShareOffsets("g", None))
    harness.ask(ShareOffsetsDeleted("g", frozenset({A})))
    assert harness.ask(DeleteGroups(("g",))) == (0,)
    assert harness.shard.groups == {}
    assert harness.joined().assignment == {A: frozenset({0, 1})}


def test_committed_offsets_do_not_exist_in_a_share_group() -> None:
    harness = Harness()
    harness.joined()
    with pytest.raises(GroupIdNotFound, match="not a consumer group"):
        harness.group.check_fetch(member_id=None, member_epoch=-1)
    with pytest.raises(GroupIdNotFound, match="not a consumer group"):
        harness.group.commit_check(member_id="m", instance_id=None, generation=1)


def test_a_member_of_the_classic_protocol_cannot_join_a_share_group() -> None:
    harness = Harness()
    epoch = harness.joined().member_epoch
    joined = harness.ask(
        JoinGroup(
            group_id="g",
            member_id="",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=(("range", b""),),
            fresh_id=A,
        )
    )
    assert (joined.error, joined.member_id) == (INCONSISTENT, "")
    assert harness.beat("m", epoch).error == 0, "the share group is still there"
