"""Planted bugs that only several nodes can have. See ablations.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

from penstock.controller import alter_partition, leaders
from penstock.controller.brokers import NO_BROKER_EPOCH
from penstock.membership.lifecycle import Lifecycle
from penstock.metadata import quorum_state
from penstock.raft import leading, voting
from penstock.replication import follower, partition, repair, replicas
from penstock.replication.company import Company
from penstock.replication.isr import Leadership
from penstock.replication.partition import Partition
from penstock.storage import replicated
from penstock.storage.producer_state import ProducerState
from penstock.storage.reserve import Reserve
from penstock.transactions import partitions
from penstock_sim.bugs import Patch, bug, replaced

# -- replication ---------------------------------------------------------------------------


@bug
def unreadable_log_may_lead() -> list[Patch]:
    """A log that cannot be read when its node starts is opened again for ever, and nobody hears of it."""
    return [patch.object(replicas, "UNOPENABLE", frozenset())]


@bug
def mark_of_the_leader_alone() -> list[Patch]:
    """The high watermark is what the leader has on disk."""

    def own(mark: int, durable_offset: int, counted: Any) -> int:
        return max(mark, durable_offset)

    return [patch.object(partition, "advance_high_watermark", own)]


@bug
def mark_with_too_few_in_sync() -> list[Patch]:
    """One replica in sync is enough, whatever min.insync.replicas says."""
    return [patch.object(partition, "effective_min_isr", lambda least, *, replica_count: 1)]


@bug
def followers_confirm_before_fsync() -> list[Patch]:
    """A follower's next fetch speaks of what is written, not of what is durable."""

    def hasty(original: Any) -> Any:
        def append_fetched(self: Partition, records: memoryview, **options: Any) -> None:
            original(self, records, **options)
            self.log.offsets.count_all_durable()

        return append_fetched

    return [replaced(Partition, "append_fetched", hasty)]


@bug
def truncate_to_high_watermark() -> list[Patch]:
    """Whoever becomes a follower cuts its log at its own mark (KIP-101)."""

    def cutting(original: Any) -> Any:
        def take_role(self: Partition, state: Any) -> None:
            before = self.leader_epoch
            original(self, state)
            if self.lead is None and self.leader_epoch != before and self.high_watermark < self.log.end_offset:
                self.cut(self.high_watermark)

        return take_role

    return [replaced(Partition, "take_role", cutting)]


@bug
def divergence_overlooked() -> list[Patch]:
    """A leader does not look whether a follower's log has parted from its own."""
    return [
        patch.object(Partition, "diverging_epoch", lambda self, offset, last_fetched_epoch: None),
        patch.object(Partition, "holds_prefix", lambda self, offset, last_fetched_epoch: True),
    ]


@bug
def divergence_ignored() -> list[Patch]:
    """A follower that is told where its log has parted goes on as it is."""
    return [patch.object(follower, "on_divergence", lambda log, *, epoch, end_offset: follower.GO_ON)]


@bug
def set_shrunk_alone() -> list[Patch]:
    """A leader leaves out a slow follower without asking the controller."""

    def expel(self: Leadership, *, leader_end: int, now: float, lag_s_max: float) -> None:
        self.counted = tuple(each for each in self.counted if each.offset >= leader_end)

    return [patch.object(Leadership, "expel", expel)]


@bug
def no_dedupe_after_failover() -> list[Patch]:
    """Followers do not note which producer wrote what."""
    return [patch.object(replicated, "_note", lambda *arguments: None)]


@bug
def damage_kept_to_itself() -> list[Patch]:
    """A node whose log has rotted does not say so: it may lead, and nobody repairs it."""
    real = repair.next_step
    return [
        patch.object(repair, "next_step", lambda *, damaged, **state: real(damaged=False, **state)),
        patch.object(Partition, "diverging_epoch", _diverging_by_any_log),
    ]


def _diverging_by_any_log(self: Partition, offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
    epoch, end_offset = self.log.epoch_end(last_fetched_epoch)
    return (epoch, end_offset) if epoch < last_fetched_epoch or end_offset < offset else None


# -- the controller ------------------------------------------------------------------------


@bug
def leader_outside_the_set() -> list[Patch]:
    """Any living replica may lead."""

    def clean_leader(state: Any, living: Any, election: Any) -> Any:
        able = [node_id for node_id in reversed(state.replicas) if living.serves(node_id)]
        return state.leader if state.leader in able else (able[0] if able else None)

    return [patch.object(leaders, "_clean_leader", clean_leader)]


@bug
def unclean_election_by_default() -> list[Patch]:
    """When nobody in sync is left, anybody is taken."""

    def unclean(original: Any) -> Any:
        return lambda state, living, settings, election: original(state, living, settings, leaders.Election.UNCLEAN)

    return [replaced(leaders, "_unclean_leader", unclean)]


@bug
def stale_broker_epochs_join() -> list[Patch]:
    """A replica may join the in-sync set for a process that is no more (KIP-903)."""
    return [
        patch.object(alter_partition, "_ineligible", lambda image, state, member: None),
        patch.object(Company, "may_join", lambda self, held, node_id, broker_epoch: True),
    ]


@bug
def stale_leaders_change_the_set() -> list[Patch]:
    """The controller takes changes of the in-sync set from any epoch of a leader, and of the processes it names."""

    def any_process(original: Any) -> Any:
        return lambda image, state, member: original(image, state, replace(member, broker_epoch=NO_BROKER_EPOCH))

    return [
        patch.object(alter_partition, "_check_epochs", lambda state, node_id, wish: None),
        patch.object(alter_partition, "check_broker_epoch", lambda image, node_id, broker_epoch: None),
        replaced(alter_partition, "_ineligible", any_process),
    ]


@bug
def full_follower_stays_in_sync() -> list[Patch]:
    """A follower that cannot write stays in the in-sync set until it has been behind for too long."""
    return [patch.object(leaders, "_without_read_only", lambda state, living: state)]


@bug
def full_leader_keeps_leading() -> list[Patch]:
    """A leader that cannot write goes on leading while its followers could."""

    def followers_alone(original: Any) -> Any:
        def without(state: Any, living: Any) -> Any:
            found = original(state, living)
            if state.leader in state.isr and state.leader not in found.isr:
                return replace(found, isr=(state.leader, *found.isr))
            return found

        return without

    return [
        replaced(leaders, "_without_read_only", followers_alone),
        patch.object(leaders.Living, "prefer_writable", lambda self, nodes: nodes),
    ]


@bug
def full_disk_kept_to_itself() -> list[Patch]:
    """A broker that cannot write does not tell the controller."""
    return [patch.object(Lifecycle, "read_only_changed", lambda self, read_only: None)]


@bug
def reserve_not_used() -> list[Patch]:
    """The metadata log does not use the space that is reserved for it."""
    return [patch.object(Reserve, "release", lambda self: False)]


# -- the quorum ----------------------------------------------------------------------------


@bug
def vote_not_persisted() -> list[Patch]:
    """A voter forgets with a restart whom it voted for, and in which epoch."""
    return [patch.object(quorum_state, "write", lambda *arguments, **named: None)]


@bug
def votes_for_anybody() -> list[Patch]:
    """A vote goes to whoever asks, however old its log."""

    def grants(state: Any, source: Any, request: Any) -> bool:
        return request.pre_vote or state.election.voted in (None, source)

    return [patch.object(voting, "_grants", grants)]


@bug
def quorum_of_one() -> list[Patch]:
    """The active controller commits what it alone holds."""
    return [patch.object(leading, "held_by_majority", lambda ends: max(ends))]


# -- transactions --------------------------------------------------------------------------


@bug
def markers_of_any_epoch() -> list[Patch]:
    """A partition takes a marker whatever producer and coordinator epoch it names."""
    return [patch.object(ProducerState, "check_marker", lambda self, *arguments, **named: None)]


@bug
def partitions_not_added() -> list[Patch]:
    """A coordinator says that a partition is part of the transaction, and does not write it down."""
    return [patch.object(partitions, "_add", lambda *arguments: None)]
