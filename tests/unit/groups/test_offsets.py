"""Committed offsets: permission to commit, fetches, and expiry."""

from uuid import UUID

import pytest

from penstock.groups.commands import (
    DeleteGroups,
    DescribeGroups,
    ForgetTopics,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    OffsetToCommit,
)
from tests.unit.groups.harness import GROUP, SESSION_MS, Harness

OK = 0
OFFSET_METADATA_TOO_LARGE = 12
ILLEGAL_GENERATION = 22
INVALID_GROUP_ID = 24
UNKNOWN_MEMBER_ID = 25
REBALANCE_IN_PROGRESS = 27
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69
GROUP_SUBSCRIBED_TO_TOPIC = 86

DAY_MS = 86_400_000
TOPIC_ID = UUID(int=7)


@pytest.fixture
def host() -> Harness:
    return Harness()


def commit_to(host: Harness, topic: str, *, topic_id: UUID = TOPIC_ID, group_id: str = GROUP, **more: object) -> int:
    offset = OffsetToCommit(topic=topic, topic_id=topic_id, partition=0, offset=5)
    command = OffsetCommit(group_id=group_id, offsets=(offset,), **more)  # type: ignore[arg-type]
    return int(host.ask(command).errors[0])


def test_a_commit_is_read_back_with_its_metadata_epoch_and_topic_id(host: Harness) -> None:
    offset = OffsetToCommit(topic="orders", topic_id=TOPIC_ID, partition=3, offset=42, leader_epoch=5, metadata="ñ")
    assert host.ask(OffsetCommit(group_id=GROUP, offsets=(offset,))).errors == (OK,)
    host.restart()
    ((topic, ((partition, value),)),) = host.ask(OffsetFetch(group_id=GROUP)).topics
    assert (topic, partition) == ("orders", 3)
    assert (value.offset, value.leader_epoch, value.metadata, value.topic_id) == (42, 5, "ñ", TOPIC_ID)
    assert value.commit_timestamp == host.now


def test_missing_metadata_is_read_back_as_empty(host: Harness) -> None:
    offset = OffsetToCommit(topic="orders", partition=0, offset=1, metadata=None)
    host.ask(OffsetCommit(group_id=GROUP, offsets=(offset,)))
    assert host.shard.offsets.of(GROUP)["orders"][0].metadata == ""


def test_a_fetch_without_committed_offsets_is_no_error(host: Harness) -> None:
    reply = host.ask(OffsetFetch(group_id="nobody", topics=(("orders", (0, 1)),)))
    assert (reply.error, reply.topics) == (OK, (("orders", ((0, None), (1, None))),))
    assert host.ask(OffsetFetch(group_id="nobody")).topics == ()


def test_only_the_offset_with_too_long_metadata_is_rejected(host: Harness) -> None:
    offsets = tuple(
        OffsetToCommit(topic="orders", partition=index, offset=1, metadata="x" * size)
        for index, size in enumerate((4096, 4097))
    )
    assert host.ask(OffsetCommit(group_id=GROUP, offsets=offsets)).errors == (OK, OFFSET_METADATA_TOO_LARGE)
    assert host.shard.offsets.of(GROUP)["orders"].keys() == {0}


def test_a_commit_without_a_member_creates_a_group_with_offsets_only(host: Harness) -> None:
    assert host.commit(7) == OK
    (group,) = host.ask(DescribeGroups((GROUP,)))
    assert (group.state, group.protocol_type) == ("Empty", "")


@pytest.mark.parametrize(("knows", "error"), [(True, GROUP_ID_NOT_FOUND), (False, ILLEGAL_GENERATION)])
def test_a_member_of_an_unknown_group_cannot_commit(host: Harness, knows: bool, error: int) -> None:
    assert host.commit(7, generation=1, member_id="m", knows_member_epochs=knows) == error
    assert host.shard.groups == {}


def test_the_empty_group_id_can_commit_and_be_deleted(host: Harness) -> None:
    assert host.commit(7, group_id="") == OK
    assert host.ask(DeleteGroups(("", ""))) == (OK, GROUP_ID_NOT_FOUND)


def test_members_commit_only_in_their_generation(host: Harness) -> None:
    (member,) = host.stable(1)
    assert host.commit(1, generation=1, member_id=member) == OK
    assert host.commit(2, generation=0, member_id=member) == ILLEGAL_GENERATION
    assert host.commit(2, generation=2, member_id=member) == ILLEGAL_GENERATION
    assert host.commit(2, generation=1, member_id="stranger") == UNKNOWN_MEMBER_ID
    assert host.committed() == 1


def test_a_non_member_cannot_commit_for_a_group_with_members(host: Harness) -> None:
    (member,) = host.stable(1)
    assert host.commit(1) == UNKNOWN_MEMBER_ID
    assert host.commit(1, member_id=member) == ILLEGAL_GENERATION
    host.leave(member)
    assert host.commit(1) == OK


def test_members_may_commit_while_preparing_but_not_while_completing_a_rebalance(host: Harness) -> None:
    one, two = host.stable(2)
    host.join(one)
    assert host.commit(1, generation=1, member_id=two) == OK
    host.join(two)
    assert host.commit(2, generation=1, member_id=two) == ILLEGAL_GENERATION
    assert host.commit(2, generation=2, member_id=two) == REBALANCE_IN_PROGRESS
    assert host.committed() == 1


def test_a_commit_extends_the_members_session(host: Harness) -> None:
    (member,) = host.stable(1)
    for offset in range(4):
        host.advance(SESSION_MS - 1)
        assert host.commit(offset, generation=1, member_id=member) == OK
    assert host.state == "Stable"


# -- removal -------------------------------------------------------------------------------


def test_offsets_expire_when_the_group_has_been_empty_for_the_retention(host: Harness) -> None:
    (member,) = host.stable(1)
    host.commit(1, generation=1, member_id=member)
    host.leave(member)
    host.restart()
    host.advance(7 * DAY_MS - 1)
    assert host.committed() == 1
    host.advance(600_000)
    assert host.committed() is None
    assert host.shard.groups == {}


def test_offsets_of_a_group_without_members_expire_after_their_last_commit(host: Harness) -> None:
    host.commit(1)
    commit_to(host, "other")
    host.advance(4 * DAY_MS)
    commit_to(host, "other")
    host.advance(3 * DAY_MS + 600_000)
    assert host.committed() is None
    assert host.committed(topic="other") == 5
    host.advance(4 * DAY_MS)
    assert host.shard.groups == {}


def test_offsets_of_topics_without_subscribers_expire_in_a_live_group(host: Harness) -> None:
    host.settings = host.shard.settings = type(host.settings)(offsets_retention_ms=60_000)
    (member,) = host.stable(1)
    commit_to(host, "old", generation=1, member_id=member)
    host.commit(1, generation=1, member_id=member)
    for _ in range(150):
        host.advance(SESSION_MS // 2)
        host.heartbeat(member)
    assert host.committed(topic="old") is None
    assert host.committed() == 1


def test_the_retention_of_the_commit_request_applies(host: Harness) -> None:
    commit_to(host, "orders", retention_ms=1_000)
    host.restart()
    host.advance(600_000)
    assert host.committed() is None


def test_a_commit_with_an_unlimited_retention_never_expires(host: Harness) -> None:
    for _ in range(2):
        assert commit_to(host, "orders", retention_ms=2**63 - 1) == OK
    host.advance(8 * DAY_MS)
    assert "orders" in host.shard.offsets.of(GROUP)


def test_offsets_of_a_deleted_topic_are_deleted_but_not_those_of_its_successor(host: Harness) -> None:
    for group_id, topic_id in (("one", TOPIC_ID), ("two", UUID(int=8)), ("three", UUID(int=0))):
        commit_to(host, "orders", topic_id=topic_id, group_id=group_id)
        commit_to(host, "other", group_id=group_id)
    assert host.ask(ForgetTopics((("orders", TOPIC_ID),))) == 2
    assert [host.committed(group_id) for group_id in ("one", "two", "three")] == [None, 5, None]
    assert host.committed("one", "other") == 5


def test_offsets_of_successive_deleted_topics_with_one_name_are_deleted_together(host: Harness) -> None:
    ids = {"one": TOPIC_ID, "two": UUID(int=8), "three": UUID(int=9)}
    for group_id, topic_id in ids.items():
        commit_to(host, "orders", topic_id=topic_id, group_id=group_id)
    assert host.ask(ForgetTopics((("orders", TOPIC_ID), ("orders", UUID(int=8))))) == 2
    assert [host.committed(group_id) for group_id in ids] == [None, None, 5]


def test_single_offsets_are_deleted(host: Harness) -> None:
    host.commit(1)
    reply = host.ask(OffsetDelete(group_id=GROUP, topics=(("orders", (0, 9)), ("nope", (0,)))))
    assert (reply.error, reply.errors) == (OK, (OK, OK))
    assert host.committed() is None


def test_offsets_of_a_subscribed_topic_are_not_deleted(host: Harness) -> None:
    (member,) = host.stable(1)
    host.commit(1, generation=1, member_id=member)
    commit_to(host, "other", generation=1, member_id=member)
    reply = host.ask(OffsetDelete(group_id=GROUP, topics=(("orders", (0,)), ("other", (0,)))))
    assert reply.errors == (GROUP_SUBSCRIBED_TO_TOPIC, OK)
    assert (host.committed(), host.committed(topic="other")) == (1, None)


def test_offsets_of_a_live_group_of_another_protocol_are_not_deleted(host: Harness) -> None:
    host.stable(1, protocol_type="connect")
    assert host.ask(OffsetDelete(group_id=GROUP, topics=())).error == NON_EMPTY_GROUP


@pytest.mark.parametrize(("group_id", "error"), [("", INVALID_GROUP_ID), ("nope", GROUP_ID_NOT_FOUND)])
def test_deleting_offsets_of_an_unknown_group_fails(host: Harness, group_id: str, error: int) -> None:
    assert host.ask(OffsetDelete(group_id=group_id, topics=())).error == error


def test_deleting_a_group_deletes_its_offsets(host: Harness) -> None:
    (member,) = host.stable(1)
    host.commit(1, generation=1, member_id=member)
    assert host.ask(DeleteGroups((GROUP,))) == (NON_EMPTY_GROUP,)
    host.leave(member)
    assert host.ask(DeleteGroups((GROUP, "", "nope", GROUP))) == (
        OK,
        GROUP_ID_NOT_FOUND,
        GROUP_ID_NOT_FOUND,
        GROUP_ID_NOT_FOUND,
    )
    host.restart()
    assert host.ask(ListGroups()) == ()
    assert host.committed() is None
