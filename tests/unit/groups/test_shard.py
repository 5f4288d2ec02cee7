"""Dispatch to both protocols; a group id names one group of either type."""

from typing import Any
from uuid import UUID

import pytest

from penstock.coordinator.decision import NO_TICKET, Expired
from penstock.groups.commands import (
    DeleteGroups,
    DescribeGroups,
    Heartbeat,
    LeaveGroup,
    LeavingMember,
    ListedGroup,
    ListGroups,
    SyncGroup,
)
from penstock.groups.consumer.commands import ConsumerGroupDescribe, ConsumerGroupHeartbeat
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.turn import SESSION, TimerKey
from tests.unit.groups.harness import GROUP, Harness

UNKNOWN_MEMBER_ID = 25
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69
STALE_MEMBER_EPOCH = 113
MEMBER = "kept-by-the-client"


@pytest.fixture
def host() -> Harness:
    return Harness()


def beat(host: Harness, epoch: int, **more: Any) -> Any:
    fields: dict[str, Any] = {"group_id": GROUP, "member_id": MEMBER, "member_epoch": epoch}
    if epoch == 0:
        fields |= {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ("orders",), "topic_partitions": {}}
    return host.ask(ConsumerGroupHeartbeat(**(fields | more)))


def test_a_consumer_group_is_created_listed_and_described(host: Harness) -> None:
    reply = beat(host, 0)
    assert reply.error == 0
    listed = ListedGroup(group_id=GROUP, protocol_type="consumer", state="Stable", type="Consumer")
    assert host.ask(ListGroups(types=frozenset({"consumer"}))) == (listed,)
    assert host.ask(ListGroups(types=frozenset({"classic"}))) == ()
    (classic,) = host.ask(DescribeGroups((GROUP,)))
    assert (classic.error, classic.error_message) == (GROUP_ID_NOT_FOUND, f"Group {GROUP} is not a classic group.")
    (described,) = host.ask(ConsumerGroupDescribe(group_ids=(GROUP,)))
    assert described.error == 0


def test_a_member_of_a_consumer_group_commits_with_its_epoch(host: Harness) -> None:
    epoch = beat(host, 0).member_epoch
    assert host.commit(1, member_id=MEMBER, generation=epoch) == 0
    assert host.commit(2, member_id=MEMBER, generation=epoch + 1) == STALE_MEMBER_EPOCH
    assert host.commit(2, member_id="stranger", generation=epoch) == UNKNOWN_MEMBER_ID
    assert host.committed() == 1


def test_a_consumer_group_survives_a_restart_with_its_sessions(host: Harness) -> None:
    epoch = beat(host, 0).member_epoch
    host.restart()
    assert beat(host, epoch).error == 0
    host.advance(45_000)
    assert host.ask(ListGroups(states=frozenset({"empty"})))[0].group_id == GROUP


def test_unknown_classic_members_of_a_consumer_group_get_classic_errors(host: Harness) -> None:
    beat(host, 0)
    fields: Any = {"group_id": GROUP, "member_id": "stranger", "generation": 1}
    assert host.ask(SyncGroup(**fields)).error == UNKNOWN_MEMBER_ID
    assert host.ask(Heartbeat(**fields)).error == UNKNOWN_MEMBER_ID
    leave = LeaveGroup(group_id=GROUP, members=(LeavingMember(member_id="stranger"),))
    assert host.ask(leave).errors == (UNKNOWN_MEMBER_ID,)
    assert host.ask(DeleteGroups((GROUP,))) == (NON_EMPTY_GROUP,)


def test_a_classic_group_replaces_an_empty_consumer_group_and_keeps_its_offsets(host: Harness) -> None:
    epoch = beat(host, 0).member_epoch
    host.commit(1, member_id=MEMBER, generation=epoch)
    beat(host, -1)
    host.stable(1)
    host.restart()
    assert host.state == "Stable"
    assert host.committed() == 1


def test_a_consumer_group_replaces_an_empty_classic_group_and_keeps_its_offsets(host: Harness) -> None:
    (member,) = host.stable(1)
    host.commit(1, member_id=member, generation=1)
    host.leave(member)
    assert beat(host, 0).error == 0
    host.restart()
    assert isinstance(host.shard.groups[GROUP], ConsumerGroup)
    assert host.committed() == 1


def test_a_group_that_only_commits_becomes_a_consumer_group(host: Harness) -> None:
    host.commit(7)
    assert beat(host, 0).error == 0
    host.restart()
    assert isinstance(host.shard.groups[GROUP], ConsumerGroup)
    assert host.committed() == 7


def test_a_timer_of_a_deleted_group_does_nothing(host: Harness) -> None:
    for kind in (SESSION, "join", "sync", "consumer-session"):
        decision = host.decide(Expired(TimerKey(kind, "gone", "m")), NO_TICKET)
        assert not decision.records and not decision.replies and not decision.drafts


def test_a_deleted_consumer_group_stays_deleted_after_a_restart(host: Harness) -> None:
    beat(host, 0)
    beat(host, -1)
    host.commit(1)
    assert host.ask(DeleteGroups((GROUP,))) == (0,)
    host.restart()
    assert host.shard.groups == {}


def test_a_member_id_consists_of_the_client_or_instance_id_and_a_random_one(host: Harness) -> None:
    fresh = UUID(int=5)
    assert host.ask(host.join_command(client_id="app", fresh_id=fresh)).member_id == f"app-{fresh}"
    host.join(client_id="app", instance_id="i", fresh_id=fresh)
    assert f"i-{fresh}" in host.group.members
