"""The classic protocol, request by request and state by state."""

from typing import Any

import pytest

from penstock.groups.classic.group import TRANSITIONS, State
from penstock.groups.commands import DescribeGroups, LeaveGroup, LeavingMember, ListedGroup, ListGroups
from tests.unit.groups.harness import GROUP, RANGE, REBALANCE_MS, SESSION_MS, Harness

OK = 0
ILLEGAL_GENERATION = 22
INCONSISTENT_GROUP_PROTOCOL = 23
INVALID_GROUP_ID = 24
UNKNOWN_MEMBER_ID = 25
UNKNOWN_SERVER_ERROR = -1
INVALID_SESSION_TIMEOUT = 26
REBALANCE_IN_PROGRESS = 27
MEMBER_ID_REQUIRED = 79
GROUP_MAX_SIZE_REACHED = 81
FENCED_INSTANCE_ID = 82

OTHER = (("roundrobin", b""),)
BOTH = (("roundrobin", b""), *RANGE)


@pytest.fixture
def host() -> Harness:
    return Harness()


def in_state(host: Harness, state: State) -> list[str]:
    """Bring a group of two members into the state; return the members, the leader first."""
    if state is State.EMPTY:
        ids = host.stable(2)
        host.leave(*ids)
        return ids
    ids = host.stable(2)
    if state is State.STABLE:
        return ids
    host.join(ids[0])
    if state is State.COMPLETING:
        host.join(ids[1])
    assert host.group.state is state
    return ids


def test_every_other_state_can_become_dead_and_dead_is_final() -> None:
    assert TRANSITIONS.keys() == set(State)
    assert all((State.DEAD in TRANSITIONS[state]) == (state is not State.DEAD) for state in State)
    assert not TRANSITIONS[State.DEAD]


# -- JoinGroup -----------------------------------------------------------------------------


def test_a_new_member_receives_an_id_and_must_join_with_it(host: Harness) -> None:
    reply = host.replies[host.join(client_id="app")]
    assert reply.error == MEMBER_ID_REQUIRED
    assert reply.member_id.startswith("app-")
    assert host.state == "Empty"
    host.join(reply.member_id)
    assert host.state == "PreparingRebalance"


def test_before_version_4_a_new_member_joins_with_one_request(host: Harness) -> None:
    ticket = host.join(must_know_member_id=False)
    host.advance(3_000)
    assert host.replies[ticket].error == OK


def test_the_first_rebalance_waits_for_the_initial_delay(host: Harness) -> None:
    _, ticket = host.begin_join()
    host.advance(2_999)
    assert ticket in host.waiting
    host.advance(1)
    assert host.replies[ticket].generation == 1


def test_each_new_member_extends_the_initial_delay_up_to_the_rebalance_timeout(host: Harness) -> None:
    host.begin_join(rebalance_timeout_ms=10_000)
    for _ in range(3):
        host.advance(2_000)
        host.begin_join(rebalance_timeout_ms=10_000)
    host.advance(3_000)
    assert host.state == "PreparingRebalance"
    host.advance(3_000)
    assert host.state == "CompletingRebalance"
    assert len(host.group.members) == 4


def test_only_the_leader_receives_the_members(host: Harness) -> None:
    (first, one), (second, two) = host.begin_join(), host.begin_join()
    host.advance(6_000)
    leader, follower = host.replies[one], host.replies[two]
    assert leader.leader == follower.leader == leader.member_id == first
    assert [member.member_id for member in leader.members] == [first, second]
    assert leader.members[0].metadata == RANGE[0][1]
    assert follower.members == ()
    assert (leader.protocol_type, leader.protocol_name) == ("consumer", "range")


def test_the_protocol_with_most_votes_among_the_common_ones_wins(host: Harness) -> None:
    host.begin_join(protocols=(("a", b""), ("b", b""), ("c", b"")))
    host.begin_join(protocols=(("b", b""), ("c", b"")))
    _, ticket = host.begin_join(protocols=(("c", b""), ("b", b"")))
    host.advance(9_000)
    assert host.replies[ticket].protocol_name == "b"


def test_a_protocol_that_a_member_names_twice_counts_once(host: Harness) -> None:
    _, one = host.begin_join(protocols=(("a", b"1"), ("a", b"2"), ("b", b"")))
    _, two = host.begin_join(protocols=(("a", b""),))
    host.advance(9_000)
    assert [host.replies[ticket].protocol_name for ticket in (one, two)] == ["a", "a"]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"group_id": ""}, INVALID_GROUP_ID),
        ({"session_timeout_ms": 5_999}, INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, INVALID_SESSION_TIMEOUT),
        ({"protocol_type": ""}, INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "stranger"}, UNKNOWN_MEMBER_ID),
    ],
)
def test_a_rejected_join_creates_no_group(host: Harness, change: Any, error: int) -> None:
    reply = host.ask(host.join_command(**change))
    assert reply.error == error
    assert reply.member_id == change.get("member_id", "")
    assert host.shard.groups == {}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"protocol_type": "connect"}, INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": OTHER}, INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "stranger"}, UNKNOWN_MEMBER_ID),
        ({"member_id": "stranger", "instance_id": "nobody"}, UNKNOWN_MEMBER_ID),
    ],
)
@pytest.mark.parametrize("state", [State.PREPARING, State.COMPLETING, State.STABLE])
def test_an_invalid_join_changes_nothing(host: Harness, state: State, change: Any, error: int) -> None:
    in_state(host, state)
    assert host.ask(host.join_command(**change)).error == error
    assert host.group.state is state


def test_a_member_of_an_empty_group_is_unknown(host: Harness) -> None:
    ids = in_state(host, State.EMPTY)
    assert host.ask(host.join_command(member_id=ids[0])).error == UNKNOWN_MEMBER_ID


def test_a_new_member_of_a_stable_group_makes_all_members_rejoin(host: Harness) -> None:
    ids = host.stable(2)
    newcomer, ticket = host.begin_join()
    assert host.state == "PreparingRebalance"
    assert [host.heartbeat(member) for member in ids] == [REBALANCE_IN_PROGRESS] * 2
    tickets = [host.join(member) for member in ids]
    assert [host.replies[t].generation for t in (*tickets, ticket)] == [2, 2, 2]
    assert host.replies[ticket].leader == ids[0] != newcomer


def test_members_that_do_not_rejoin_in_time_are_removed(host: Harness) -> None:
    ids = host.stable(3)
    ticket = host.join(ids[1], protocols=BOTH)
    for _ in range(12):
        host.advance(REBALANCE_MS // 12)
        for member in (ids[0], ids[2]):
            if member in host.group.members:
                host.heartbeat(member)
    assert host.replies[ticket].generation == 2
    assert host.replies[ticket].leader == ids[1]
    assert list(host.group.members) == [ids[1]]


def test_a_leader_that_rejoins_a_stable_group_starts_a_rebalance(host: Harness) -> None:
    ids = host.stable(2)
    host.join(ids[0])
    assert host.state == "PreparingRebalance"


def test_a_follower_that_rejoins_unchanged_receives_the_current_generation(host: Harness) -> None:
    ids = host.stable(2)
    reply = host.ask(host.join_command(member_id=ids[1]))
    assert (reply.error, reply.generation, reply.members) == (OK, 1, ())
    assert host.state == "Stable"


def test_a_follower_that_rejoins_with_another_subscription_starts_a_rebalance(host: Harness) -> None:
    ids = host.stable(2)
    host.join(ids[1], protocols=BOTH)
    assert host.state == "PreparingRebalance"


@pytest.mark.parametrize("who", [0, 1])
def test_a_lost_join_reply_is_repeated_while_the_assignment_is_awaited(host: Harness, who: int) -> None:
    ids = in_state(host, State.COMPLETING)
    reply = host.ask(host.join_command(member_id=ids[who]))
    assert (reply.error, reply.generation) == (OK, 2)
    assert len(reply.members) == (2 if who == 0 else 0)
    assert host.state == "CompletingRebalance"


def test_a_changed_member_restarts_the_rebalance_while_the_assignment_is_awaited(host: Harness) -> None:
    ids = in_state(host, State.COMPLETING)
    waiting = host.sync(ids[1])
    host.join(ids[0], protocols=BOTH)
    assert host.state == "PreparingRebalance"
    assert host.replies[waiting].error == REBALANCE_IN_PROGRESS


def test_a_second_join_of_a_waiting_member_answers_the_first(host: Harness) -> None:
    ids = in_state(host, State.PREPARING)
    (first,) = host.waiting
    host.join(ids[0])
    assert host.replies[first].error == REBALANCE_IN_PROGRESS


def test_a_full_group_rejects_a_new_member() -> None:
    host = Harness(size_max=2)
    host.stable(2)
    reply = host.ask(host.join_command())
    assert (reply.error, reply.member_id) == (GROUP_MAX_SIZE_REACHED, "")
    assert host.state == "Stable"


def test_a_group_above_a_lowered_size_limit_rebalances_after_a_restart_and_rejects_the_last() -> None:
    host = Harness()
    ids = host.stable(3)
    host.settings = type(host.settings)(size_max=2)
    host.restart()
    assert host.state == "PreparingRebalance"
    tickets = [host.join(member) for member in ids]
    assert host.replies[tickets[2]].error == GROUP_MAX_SIZE_REACHED
    assert [host.replies[ticket].generation for ticket in tickets[:2]] == [2, 2]


def test_a_pending_member_delays_the_rebalance_until_its_session_expires(host: Harness) -> None:
    ids = host.stable(1)
    pending = host.replies[host.join(session_timeout_ms=6_000)].member_id
    ticket = host.join(ids[0])
    assert ticket in host.waiting
    host.advance(6_000)
    assert host.replies[ticket].generation == 2
    assert host.ask(host.join_command(member_id=pending)).error == UNKNOWN_MEMBER_ID


def test_a_new_member_that_waits_for_five_minutes_is_removed(host: Harness) -> None:
    ids = host.stable(1)
    _, ticket = host.begin_join(rebalance_timeout_ms=600_000)
    for _ in range(60):
        host.advance(5_000)
        if ids[0] in host.group.members:
            host.heartbeat(ids[0])
    assert host.replies[ticket].error == UNKNOWN_MEMBER_ID


# -- SyncGroup -----------------------------------------------------------------------------


def test_followers_wait_for_the_leaders_assignment(host: Harness) -> None:
    ids = in_state(host, State.COMPLETING)
    follower = host.sync(ids[1])
    assert follower in host.waiting
    leader = host.sync(ids[0], assignments=((ids[0], b"one"), (ids[1], b"two")))
    assert host.state == "Stable"
    assert [host.replies[ticket].assignment for ticket in (leader, follower)] == [b"one", b"two"]
    assert host.replies[follower].protocol_name == "range"


def test_a_late_follower_gets_the_assignment_from_the_stable_group(host: Harness) -> None:
    ids = in_state(host, State.COMPLETING)
    host.sync(ids[0], assignments=((ids[1], b"two"), ("stranger", b"x")))
    assert host.replies[host.sync(ids[1])].assignment == b"two"
    assert host.group.members[ids[0]].assignment == b""


def test_members_that_do_not_fetch_their_assignment_are_removed(host: Harness) -> None:
    ids = in_state(host, State.COMPLETING)
    host.sync(ids[0], assignments=host.own_ids())
    for _ in range(12):
        host.advance(REBALANCE_MS // 12)
        for member in ids:
            if member in host.group.members:
                host.heartbeat(member)
    assert list(host.group.members) == [ids[0]]
    assert host.state == "PreparingRebalance"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"member_id": "stranger"}, UNKNOWN_MEMBER_ID),
        ({"generation": 1}, ILLEGAL_GENERATION),
        ({"protocol_type": "connect"}, INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, INCONSISTENT_GROUP_PROTOCOL),
        ({"instance_id": "nobody"}, UNKNOWN_MEMBER_ID),
    ],
)
def test_an_invalid_sync_is_rejected(host: Harness, change: Any, error: int) -> None:
    ids = in_state(host, State.COMPLETING)
    assert host.replies[host.sync(**({"member_id": ids[0]} | change))].error == error


@pytest.mark.parametrize(
    ("state", "error"), [(State.EMPTY, UNKNOWN_MEMBER_ID), (State.PREPARING, REBALANCE_IN_PROGRESS)]
)
def test_a_sync_is_rejected_in_states_without_an_assignment(host: Harness, state: State, error: int) -> None:
    ids = in_state(host, state)
    assert host.replies[host.sync(ids[1])].error == error


def test_a_second_sync_of_a_waiting_member_answers_the_first(host: Harness) -> None:
    ids = in_state(host, State.COMPLETING)
    first, second = host.sync(ids[1]), host.sync(ids[1])
    assert host.replies[first].error == REBALANCE_IN_PROGRESS
    assert second in host.waiting


# -- Heartbeat -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (State.EMPTY, UNKNOWN_MEMBER_ID),
        (State.PREPARING, REBALANCE_IN_PROGRESS),
        (State.COMPLETING, OK),
        (State.STABLE, OK),
    ],
)
def test_a_heartbeat_is_answered_by_the_state_of_the_group(host: Harness, state: State, error: int) -> None:
    ids = in_state(host, state)
    assert host.heartbeat(ids[1]) == error


@pytest.mark.parametrize("state", [State.PREPARING, State.COMPLETING, State.STABLE])
def test_a_heartbeat_of_another_generation_or_an_unknown_member_is_rejected(host: Harness, state: State) -> None:
    ids = in_state(host, state)
    assert host.heartbeat(ids[1], generation=99) == ILLEGAL_GENERATION
    assert host.heartbeat("stranger") == UNKNOWN_MEMBER_ID


def test_a_member_without_heartbeats_is_removed_after_its_session_timeout(host: Harness) -> None:
    ids = host.stable(2)
    for _ in range(3):
        host.advance(SESSION_MS // 2)
        assert host.heartbeat(ids[0]) in (OK, REBALANCE_IN_PROGRESS)
    assert list(host.group.members) == [ids[0]]
    assert host.heartbeat(ids[1], generation=1) == UNKNOWN_MEMBER_ID


def test_a_member_that_waits_for_the_others_needs_no_heartbeats(host: Harness) -> None:
    ids = host.stable(2)
    ticket = host.join(ids[0])
    for _ in range(5):
        host.advance(SESSION_MS - 1)
        host.heartbeat(ids[1])
    assert ticket in host.waiting
    assert ids[0] in host.group.members


def test_when_all_members_expire_the_group_is_written_as_empty(host: Harness) -> None:
    host.stable(3)
    host.advance(3 * REBALANCE_MS)
    assert host.state == "Empty"
    host.restart()
    assert (host.state, host.group.generation) == ("Empty", 2)


# -- LeaveGroup ----------------------------------------------------------------------------


def test_a_member_that_leaves_makes_the_others_rebalance(host: Harness) -> None:
    ids = host.stable(2)
    assert host.leave(ids[0]) == (OK,)
    assert host.state == "PreparingRebalance"
    assert host.replies[host.join(ids[1])].leader == ids[1]


def test_the_group_is_empty_when_the_last_member_leaves(host: Harness) -> None:
    ids = host.stable(2)
    assert host.leave(*ids) == (OK, OK)
    assert (host.state, host.group.generation, host.group.protocol_type) == ("Empty", 2, "consumer")


def test_each_member_of_a_leave_request_has_its_own_error(host: Harness) -> None:
    ids = host.stable(2)
    assert host.leave(ids[0], "stranger", LeavingMember(instance_id="nobody")) == (
        OK,
        UNKNOWN_MEMBER_ID,
        UNKNOWN_MEMBER_ID,
    )


def test_leaving_an_unknown_group_fails_for_each_member(host: Harness) -> None:
    assert host.leave("a", "b") == (UNKNOWN_MEMBER_ID,) * 2
    assert host.ask(LeaveGroup(group_id="", members=())).error == INVALID_GROUP_ID


def test_a_pending_member_can_leave(host: Harness) -> None:
    ids = host.stable(1)
    pending = host.replies[host.join()].member_id
    ticket = host.join(ids[0])
    assert host.leave(pending) == (OK,)
    assert host.replies[ticket].generation == 2


def test_a_member_that_is_removed_while_it_waits_is_answered(host: Harness) -> None:
    ids = in_state(host, State.PREPARING)
    (joining,) = host.waiting
    host.leave(ids[0])
    assert host.replies[joining].error == UNKNOWN_MEMBER_ID
    ticket = host.join(ids[1])
    host.sync(ids[1], assignments=host.own_ids())
    newcomer, _ = host.begin_join()
    host.join(ids[1])
    syncing = host.sync(newcomer)
    host.leave(newcomer)
    assert host.replies[syncing].error == UNKNOWN_MEMBER_ID
    assert host.replies[ticket].error == OK


# -- static members ------------------------------------------------------------------------


def static_pair(host: Harness) -> tuple[str, str]:
    """Return a stable group of the instances a, which leads, and b."""
    tickets = [host.join(instance_id=name) for name in ("a", "b")]
    host.advance(6_000)
    one, two = (host.replies[ticket].member_id for ticket in tickets)
    host.sync(two, instance_id="b")
    host.sync(one, instance_id="a", assignments=host.own_ids())
    return one, two


def test_a_static_member_joins_with_one_request(host: Harness) -> None:
    one, _ = static_pair(host)
    assert one.startswith("a-")
    assert host.state == "Stable"


def test_a_static_follower_that_restarts_keeps_its_assignment_without_a_rebalance(host: Harness) -> None:
    one, two = static_pair(host)
    reply = host.ask(host.join_command(instance_id="b"))
    assert (reply.error, reply.generation, reply.leader, reply.skip_assignment) == (OK, 1, one, False)
    assert reply.member_id != two
    assert host.state == "Stable"
    assert host.replies[host.sync(reply.member_id, instance_id="b")].assignment == two.encode()


def test_a_restarted_static_leader_is_asked_to_skip_the_assignment(host: Harness) -> None:
    one, two = static_pair(host)
    reply = host.ask(host.join_command(instance_id="a"))
    assert (reply.error, reply.leader, reply.skip_assignment) == (OK, reply.member_id, True)
    assert [member.member_id for member in reply.members] == [reply.member_id, two]
    assert reply.member_id != one


def test_before_version_9_a_restarted_static_leader_receives_its_old_id_as_leader(host: Harness) -> None:
    one, _ = static_pair(host)
    reply = host.ask(host.join_command(instance_id="a", can_skip_assignment=False))
    assert (reply.leader, reply.skip_assignment, reply.members) == (one, False, ())


def test_the_replaced_static_member_is_fenced(host: Harness) -> None:
    _, two = static_pair(host)
    host.join(instance_id="b")
    assert host.heartbeat(two, instance_id="b") == FENCED_INSTANCE_ID
    assert host.replies[host.sync(two, instance_id="b")].error == FENCED_INSTANCE_ID
    assert host.ask(host.join_command(member_id=two, instance_id="b")).error == FENCED_INSTANCE_ID
    assert host.leave(LeavingMember(member_id=two, instance_id="b")) == (FENCED_INSTANCE_ID,)
    assert host.commit(1, generation=1, member_id=two, instance_id="b") == FENCED_INSTANCE_ID


def test_a_static_member_that_waits_is_fenced_by_its_successor(host: Harness) -> None:
    first = host.join(instance_id="a")
    host.join(instance_id="a")
    assert host.replies[first].error == FENCED_INSTANCE_ID
    host.advance(6_000)
    assert len(host.group.members) == 1


def test_a_static_member_that_restarts_during_the_assignment_restarts_the_rebalance(host: Harness) -> None:
    one, two = static_pair(host)
    host.join(one, instance_id="a")
    host.join(two, instance_id="b", protocols=BOTH)
    syncing = host.sync(two, instance_id="b")
    host.join(instance_id="b")
    assert host.replies[syncing].error == FENCED_INSTANCE_ID
    assert host.state == "PreparingRebalance"


def test_a_static_member_that_returns_with_other_protocols_starts_a_rebalance_if_the_choice_changes(
    host: Harness,
) -> None:
    tickets = [host.join(instance_id=name, protocols=BOTH) for name in ("a", "b")]
    host.advance(6_000)
    one, two = (host.replies[ticket].member_id for ticket in tickets)
    host.sync(two, instance_id="b")
    host.sync(one, instance_id="a", assignments=host.own_ids())
    assert host.group.protocol_name == "roundrobin"
    host.join(instance_id="b", protocols=RANGE)
    assert host.state == "PreparingRebalance"


def test_a_static_member_is_removed_by_its_instance_id(host: Harness) -> None:
    one, _ = static_pair(host)
    assert host.leave(LeavingMember(instance_id="b")) == (OK,)
    assert list(host.group.members) == [one]


def test_a_static_member_that_does_not_rejoin_is_kept_until_it_misses_the_sync(host: Harness) -> None:
    one, two = static_pair(host)
    ticket = host.join(one, instance_id="a")
    for _ in range(7):
        host.advance(SESSION_MS - 1)
        host.heartbeat(two, instance_id="b")
    assert host.replies[ticket].error == OK
    assert two in host.group.members


# -- descriptions --------------------------------------------------------------------------


def test_a_stable_group_is_described_with_subscriptions_and_assignments(host: Harness) -> None:
    ids = host.stable(1)
    (group,) = host.ask(DescribeGroups((GROUP,)))
    assert (group.error, group.state, group.protocol_type, group.protocol) == (OK, "Stable", "consumer", "range")
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == (ids[0], "c", "/127.0.0.1")
    assert (member.metadata, member.assignment) == (RANGE[0][1], ids[0].encode())


def test_a_rebalancing_group_is_described_without_subscriptions(host: Harness) -> None:
    in_state(host, State.PREPARING)
    (group,) = host.ask(DescribeGroups((GROUP,)))
    assert (group.state, group.protocol) == ("PreparingRebalance", "")
    assert [member.metadata for member in group.members] == [b"", b""]


def test_an_unknown_group_is_described_as_dead(host: Harness) -> None:
    (group,) = host.ask(DescribeGroups(("nope",)))
    assert (group.error, group.state, group.error_message) == (69, "Dead", "Group nope not found.")


@pytest.mark.parametrize(
    ("states", "types", "listed"),
    [
        ((), (), True),
        (("stable",), (), True),
        (("stable", "dead"), ("classic",), True),
        (("empty",), (), False),
        ((), ("consumer",), False),
    ],
)
def test_groups_are_listed_by_state_and_type(host: Harness, states: Any, types: Any, listed: bool) -> None:
    host.stable(1)
    found = host.ask(ListGroups(states=frozenset(states), types=frozenset(types)))
    expected = ListedGroup(group_id=GROUP, protocol_type="consumer", state="Stable", type="Classic")
    assert found == ((expected,) if listed else ())


def test_a_restart_keeps_members_and_generation_and_gives_new_sessions(host: Harness) -> None:
    ids = host.stable(2)
    host.advance(SESSION_MS - 1)
    host.restart()
    host.advance(SESSION_MS - 1)
    assert [host.heartbeat(member) for member in ids] == [OK, OK]
    assert host.replies[host.sync(ids[1])].assignment == ids[1].encode()


@pytest.mark.parametrize("state", [State.PREPARING, State.COMPLETING])
def test_a_restart_during_a_rebalance_returns_to_the_previous_generation(host: Harness, state: State) -> None:
    ids = in_state(host, state)
    host.restart()
    assert (host.state, host.group.generation) == ("Stable", 1)
    host.join(ids[0])
    assert host.replies[host.join(ids[1])].generation == 2


# -- memory --------------------------------------------------------------------------------


def test_metadata_too_large_for_a_record_is_rejected(host: Harness) -> None:
    too_large = bytes(host.shard.settings.metadata_size_max + 1)
    reply = host.replies[host.join(protocols=(("range", too_large),))]
    assert reply.error == UNKNOWN_SERVER_ERROR
    assert host.shard.metadata_size == 0


def test_a_group_tracks_the_size_of_its_members_metadata(host: Harness) -> None:
    first = host.replies[host.join(protocols=(("range", bytes(100)), ("roundrobin", bytes(50))))].member_id
    assert host.shard.metadata_size == 0
    host.join(first, protocols=(("range", bytes(100)), ("roundrobin", bytes(50))))
    assert host.shard.metadata_size == 150
    host.leave(first)
    assert host.shard.metadata_size == 0


def test_a_member_id_fits_with_the_longest_names(host: Harness) -> None:
    reply = host.replies[host.join(client_id="\N{EURO SIGN}" * 10_000)]
    assert reply.error == MEMBER_ID_REQUIRED
    assert len(reply.member_id.encode()) < 32_767
