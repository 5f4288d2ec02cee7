"""Offsets committed in transactions: when they take effect, what they block, and what removes them."""

from typing import Any
from uuid import UUID

import pytest

from penstock.coordinator.decision import InTransaction
from penstock.groups.commands import (
    DeleteGroups,
    ForgetTopics,
    ListGroups,
    OffsetDelete,
    OffsetFetch,
    OffsetToCommit,
    TxnOffsetCommit,
)
from penstock.groups.consumer.commands import ConsumerGroupHeartbeat
from penstock.groups.pending_offsets import PendingOffsets
from penstock.groups.records import OffsetCommitKey, OffsetCommitValue
from tests.unit.groups.harness import GROUP, Harness

OK = 0
OFFSET_METADATA_TOO_LARGE = 12
ILLEGAL_GENERATION = 22
UNKNOWN_MEMBER_ID = 25
FENCED_INSTANCE_ID = 82

ANNE, BERT = 1000, 1001
DAY_MS = 86_400_000
HERE = ("orders", 0)


@pytest.fixture
def host() -> Harness:
    return Harness()


# -- effect --------------------------------------------------------------------------------


def test_an_offset_takes_effect_when_its_transaction_is_committed(host: Harness) -> None:
    host.commit(1)
    assert host.stage(ANNE, 2) == OK
    assert host.committed() == 1
    host.end(ANNE)
    assert host.committed() == 2


def test_an_offset_of_an_aborted_transaction_never_takes_effect(host: Harness) -> None:
    host.commit(1)
    host.stage(ANNE, 2)
    host.end(ANNE, is_commit=False)
    assert host.committed() == 1
    host.end(ANNE)
    assert host.committed() == 1


def test_an_open_transaction_is_still_open_after_a_restart(host: Harness) -> None:
    host.stage(ANNE, 2)
    host.restart()
    assert host.committed() is None
    assert host.unstable() == {HERE}
    host.end(ANNE)
    host.restart()
    assert host.committed() == 2
    assert host.unstable() == set()


def test_the_marker_of_another_producer_ends_nothing(host: Harness) -> None:
    host.stage(ANNE, 2)
    host.end(BERT)
    host.end(BERT, is_commit=False)
    assert host.committed() is None
    assert host.unstable() == {HERE}


def test_a_second_marker_has_no_effect(host: Harness) -> None:
    host.stage(ANNE, 2)
    host.end(ANNE)
    host.end(ANNE)
    host.commit(3)
    host.end(ANNE)
    assert host.committed() == 3


def test_one_transaction_may_contain_offsets_of_many_groups_and_topics(host: Harness) -> None:
    host.stage(ANNE, 1, "one")
    host.stage(ANNE, 2, "two")
    host.stage(ANNE, 3, "two", topic="other")
    host.stage(BERT, 9, "two")
    host.end(ANNE)
    assert (host.committed("one"), host.committed("two"), host.committed("two", "other")) == (1, 2, 3)
    assert host.unstable("one") == set()
    assert host.unstable("two") == {HERE}


def test_the_last_offset_of_a_transaction_wins(host: Harness) -> None:
    host.stage(ANNE, 1)
    host.stage(ANNE, 5)
    host.end(ANNE)
    assert host.committed() == 5


# -- order ---------------------------------------------------------------------------------


def test_a_later_plain_commit_supersedes_pending_offsets(host: Harness) -> None:
    host.stage(ANNE, 2)
    host.commit(3)
    assert host.unstable() == {HERE}
    host.end(ANNE)
    assert host.committed() == 3
    assert host.unstable() == set()


def test_an_offset_staged_after_a_plain_commit_takes_effect(host: Harness) -> None:
    host.stage(ANNE, 2)
    host.commit(3)
    host.stage(ANNE, 4)
    host.end(ANNE)
    assert host.committed() == 4


def test_the_newer_record_of_two_transactions_wins_in_any_order_of_markers(host: Harness) -> None:
    host.stage(ANNE, 1)
    host.stage(BERT, 2)
    host.end(BERT)
    assert host.committed() == 2
    host.end(ANNE)
    assert host.committed() == 2


def test_an_aborted_transaction_supersedes_nothing(host: Harness) -> None:
    host.stage(ANNE, 1)
    host.stage(BERT, 2)
    host.end(BERT, is_commit=False)
    host.end(ANNE)
    assert host.committed() == 1


def test_staging_an_offset_again_makes_it_the_newest(host: Harness) -> None:
    host.stage(ANNE, 1)
    host.stage(BERT, 2)
    host.stage(ANNE, 3)
    host.end(ANNE)
    host.end(BERT)
    assert host.committed() == 3


# -- stable offsets ------------------------------------------------------------------------


def test_a_stable_fetch_is_rejected_for_partitions_with_an_open_transaction(host: Harness) -> None:
    host.commit(1)
    host.stage(ANNE, 2)
    host.stage(ANNE, 2, topic="other")
    topics = (("orders", (0, 1)), ("other", (0,)))
    reply = host.ask(OffsetFetch(group_id=GROUP, topics=topics, require_stable=True))
    assert reply.unstable == {HERE, ("other", 0)}
    assert host.ask(OffsetFetch(group_id=GROUP, topics=topics)).unstable == frozenset()
    # A fetch of all offsets returns only partitions with a committed offset.
    everything = host.ask(OffsetFetch(group_id=GROUP, require_stable=True))
    assert [name for name, _ in everything.topics] == ["orders"]


# -- permission ----------------------------------------------------------------------------


def test_a_producer_is_fenced_with_the_consumer_it_names(host: Harness) -> None:
    (member,) = host.stable(1)
    assert host.stage(ANNE, 1, generation=1, member_id=member) == OK
    assert host.stage(ANNE, 2, generation=0, member_id=member) == ILLEGAL_GENERATION
    assert host.stage(ANNE, 2, generation=1, member_id="stranger") == UNKNOWN_MEMBER_ID
    assert host.stage(ANNE, 2, generation=-1, member_id=member) == ILLEGAL_GENERATION
    host.end(ANNE)
    assert host.committed() == 1


def test_the_replaced_member_of_a_static_instance_is_fenced(host: Harness) -> None:
    host.join(instance_id="i")
    host.advance(host.settings.initial_rebalance_delay_ms)
    assert host.stage(ANNE, 2, generation=1, member_id="old", instance_id="i") == FENCED_INSTANCE_ID
    assert host.stage(ANNE, 2, generation=1, member_id="old", instance_id="j") == UNKNOWN_MEMBER_ID


def test_a_producer_that_names_no_member_may_commit_for_a_group_with_members(host: Harness) -> None:
    host.stable(1)
    assert host.stage(ANNE, 1) == OK


def test_a_member_may_commit_in_a_transaction_before_it_has_its_assignment(host: Harness) -> None:
    member, ticket = host.begin_join()
    host.advance(host.settings.initial_rebalance_delay_ms)
    assert host.replies.pop(ticket).error == OK
    assert host.state == "CompletingRebalance"
    assert host.stage(ANNE, 1, generation=1, member_id=member) == OK


def test_a_member_of_an_unknown_group_cannot_commit_in_a_transaction(host: Harness) -> None:
    assert host.stage(ANNE, 1, generation=1, member_id="m") == ILLEGAL_GENERATION
    assert host.shard.groups == {}


def test_producers_get_illegal_generation_instead_of_stale_member_epoch(host: Harness) -> None:
    beat = ConsumerGroupHeartbeat(
        group_id=GROUP,
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=("orders",),
        topic_partitions={},
    )
    epoch = host.ask(beat).member_epoch
    assert host.stage(ANNE, 1, generation=epoch, member_id="m") == OK
    assert host.stage(ANNE, 2, generation=epoch + 1, member_id="m") == ILLEGAL_GENERATION
    # Nothing was assigned, so an older epoch has no partition to commit.
    assert host.stage(ANNE, 2, generation=epoch - 1, member_id="m") == ILLEGAL_GENERATION
    assert host.stage(ANNE, 3) == OK


def test_only_the_offset_with_too_long_metadata_is_rejected(host: Harness) -> None:
    offsets = tuple(
        OffsetToCommit(topic="orders", partition=index, offset=1, metadata="x" * size)
        for index, size in enumerate((4096, 4097))
    )
    command = TxnOffsetCommit(group_id=GROUP, transaction=InTransaction(ANNE, 0), offsets=offsets)
    assert host.ask(command).errors == (OK, OFFSET_METADATA_TOO_LARGE)
    assert host.unstable() == {HERE}


# -- removal -------------------------------------------------------------------------------


def test_neither_a_group_nor_its_offsets_expire_while_a_transaction_is_open(host: Harness) -> None:
    host.commit(1)
    host.stage(ANNE, 2)
    host.stage(BERT, 2, "new")
    host.advance(30 * DAY_MS)
    assert host.committed() == 1
    assert {listed.group_id for listed in host.ask(ListGroups())} == {GROUP, "new"}
    host.end(ANNE, is_commit=False)
    host.end(BERT, is_commit=False)
    host.advance(600_000)
    assert host.committed() is None
    assert host.shard.groups == {}


@pytest.mark.parametrize("is_empty", [True, False])
def test_deleting_a_group_deletes_its_pending_offsets(host: Harness, is_empty: bool) -> None:
    if not is_empty:
        host.commit(1)
    host.stage(ANNE, 2)
    host.stage(BERT, 3, topic="other")
    assert host.ask(DeleteGroups((GROUP,))) == (OK,)
    host.restart()
    assert host.shard.groups == {}
    host.end(ANNE)
    host.end(BERT)
    assert host.committed() is None
    assert host.shard.groups == {}


def test_a_commit_marker_does_not_restore_a_deleted_offset(host: Harness) -> None:
    host.stage(ANNE, 2)
    host.stage(ANNE, 2, topic="other")
    reply = host.ask(OffsetDelete(group_id=GROUP, topics=(("orders", (0,)),)))
    assert reply.errors == (OK,)
    assert host.unstable() == {("other", 0)}
    host.end(ANNE)
    assert (host.committed(), host.committed(topic="other")) == (None, 2)


OLD, NEW = UUID(int=7), UUID(int=8)


def test_pending_offsets_of_a_deleted_topic_are_deleted(host: Harness) -> None:
    host.stage(ANNE, 2, topic_id=OLD)
    host.stage(BERT, 2, "two", topic_id=NEW)
    assert host.ask(ForgetTopics((("orders", OLD),))) == 1
    host.end(ANNE)
    host.end(BERT)
    assert (host.committed(), host.committed("two")) == (None, 2)


def test_pending_offsets_of_the_successor_of_a_deleted_topic_are_kept(host: Harness) -> None:
    host.stage(BERT, 1, topic_id=OLD)
    host.end(BERT)
    host.stage(ANNE, 2, topic_id=NEW)
    assert host.ask(ForgetTopics((("orders", OLD),))) == 0
    host.end(ANNE)
    assert host.committed() == 2


def test_a_group_without_a_record_is_kept_while_it_has_pending_offsets(host: Harness) -> None:
    (member,) = host.stable(1)
    host.leave(member)
    host.stage(ANNE, 2)
    beat: dict[str, Any] = {"group_id": GROUP, "member_id": "m", "subscribed_topic_names": ("orders",)}
    assert (
        host.ask(ConsumerGroupHeartbeat(member_epoch=0, rebalance_timeout_ms=60_000, topic_partitions={}, **beat)).error
        == OK
    )
    host.ask(ConsumerGroupHeartbeat(group_id=GROUP, member_id="m", member_epoch=-1))
    host.advance(30 * DAY_MS)
    assert GROUP in host.shard.groups
    host.end(ANNE)
    assert host.committed() == 2


def test_no_state_is_left_after_all_transactions_end() -> None:
    pending = PendingOffsets()
    value = OffsetCommitValue(offset=1, metadata="", commit_timestamp=0)
    keys = [OffsetCommitKey(GROUP, "orders", index) for index in range(3)]
    for key in keys:
        pending.stage(ANNE, key, value)
        pending.stage(BERT, key, value)
    pending.drop(keys[0])
    assert pending.end(ANNE, is_commit=True) == [(key, value) for key in keys[1:]]
    assert keys[1] in pending and keys[0] not in pending
    assert pending.end(BERT, is_commit=False) == []
    assert not pending
    assert (pending._by_group, pending._keys) == ({}, {})
