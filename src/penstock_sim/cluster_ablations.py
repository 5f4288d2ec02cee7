"""Planted bugs that need several nodes. See ablations.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

from penstock.controller import alter_partition, leaders, replica_plan
from penstock.controller.brokers import NO_BROKER_EPOCH
from penstock.membership.lifecycle import Lifecycle
from penstock.metadata import quorum_state
from penstock.metadata.image import BrokerImage
from penstock.raft import leading, voting
from penstock.replication import follower, partition, repair, replicas
from penstock.replication.cluster_peers import ClusterPeers
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
    """Keep reopening a log that cannot be read at startup, without reporting it."""
    return [patch.object(replicas, "UNOPENABLE", frozenset())]


@bug
def mark_of_the_leader_alone() -> list[Patch]:
    """Set the high watermark to the durable end of the leader alone."""

    def own(mark: int, durable_offset: int, counted: Any) -> int:
        return max(mark, durable_offset)

    return [patch.object(partition, "advance_high_watermark", own)]


@bug
def mark_with_too_few_in_sync() -> list[Patch]:
    """Accept a single in-sync replica regardless of min.insync.replicas."""
    return [patch.object(partition, "effective_min_isr", lambda least, *, replica_count: 1)]


@bug
def followers_confirm_before_fsync() -> list[Patch]:
    """Let a follower's next fetch confirm written instead of durable records."""

    def hasty(original: Any) -> Any:
        def append_fetched(self: Partition, records: memoryview, **options: Any) -> None:
            original(self, records, **options)
            self.log.offsets.count_all_durable()

        return append_fetched

    return [replaced(Partition, "append_fetched", hasty)]


@bug
def truncate_to_high_watermark() -> list[Patch]:
    """Truncate the log of a new follower to its own high watermark (KIP-101)."""

    def cutting(original: Any) -> Any:
        def take_role(self: Partition, state: Any) -> None:
            before = self.leader_epoch
            original(self, state)
            if self.leadership is None and self.leader_epoch != before and self.high_watermark < self.log.end_offset:
                self.truncate(self.high_watermark)

        return take_role

    return [replaced(Partition, "take_role", cutting)]


@bug
def divergence_overlooked() -> list[Patch]:
    """Do not check on the leader whether a follower's log diverges."""
    return [
        patch.object(Partition, "diverging_epoch", lambda self, offset, last_fetched_epoch: None),
        patch.object(Partition, "contains_prefix", lambda self, offset, last_fetched_epoch: True),
    ]


@bug
def divergence_ignored() -> list[Patch]:
    """Let a follower ignore a diverging epoch."""
    return [patch.object(follower, "on_divergence", lambda log, *, epoch, end_offset: follower.CONTINUE)]


@bug
def set_shrunk_alone() -> list[Patch]:
    """Let a leader remove a slow follower from the ISR without the controller."""

    def shrink_isr(self: Leadership, *, leader_end: int, now: float, lag_s_max: float) -> None:
        self.counted = tuple(each for each in self.counted if each.offset >= leader_end)

    return [patch.object(Leadership, "shrink_isr", shrink_isr)]


@bug
def no_dedupe_after_failover() -> list[Patch]:
    """Do not track producer state on followers."""
    return [patch.object(replicated, "_note", lambda *arguments: None)]


@bug
def damage_kept_to_itself() -> list[Patch]:
    """Do not report a damaged log: the replica may lead and is not repaired."""
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
    """Let any live replica become leader."""

    def clean_leader(state: Any, living: Any, election: Any) -> Any:
        able = [node_id for node_id in reversed(state.replicas) if living.serves(node_id)]
        return state.leader if state.leader in able else (able[0] if able else None)

    return [patch.object(leaders, "_clean_leader", clean_leader)]


@bug
def unclean_election_by_default() -> list[Patch]:
    """Elect any replica if no in-sync replica is left."""

    def unclean(original: Any) -> Any:
        return lambda state, living, settings, election: original(state, living, settings, leaders.Election.UNCLEAN)

    return [replaced(leaders, "_unclean_leader", unclean)]


@bug
def stale_broker_epochs_join() -> list[Patch]:
    """Let a replica join the ISR with the broker epoch of an earlier process (KIP-903)."""
    return [
        patch.object(alter_partition, "_ineligible", lambda image, state, member: None),
        patch.object(ClusterPeers, "may_join", lambda self, held, node_id, broker_epoch: True),
    ]


@bug
def stale_leaders_change_the_set() -> list[Patch]:
    """Accept ISR changes from any leader epoch and any broker epoch."""

    def any_process(original: Any) -> Any:
        return lambda image, state, member: original(image, state, replace(member, broker_epoch=NO_BROKER_EPOCH))

    return [
        patch.object(alter_partition, "_check_epochs", lambda state, node_id, wish: None),
        patch.object(alter_partition, "check_broker_epoch", lambda image, node_id, broker_epoch: None),
        replaced(alter_partition, "_ineligible", any_process),
    ]


@bug
def full_follower_stays_in_sync() -> list[Patch]:
    """Keep a follower that cannot write in the ISR until it has lagged for too long."""
    return [patch.object(leaders, "_without_read_only", lambda state, living: state)]


@bug
def full_leader_keeps_leading() -> list[Patch]:
    """Let a leader that cannot write keep leading although its followers could."""

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
    """Do not report to the controller that a broker cannot write."""
    return [patch.object(Lifecycle, "read_only_changed", lambda self, read_only: None)]


@bug
def reserve_not_used() -> list[Patch]:
    """Do not use the reserved space for the metadata log."""
    return [patch.object(Reserve, "release", lambda self: False)]


# -- the quorum ----------------------------------------------------------------------------


@bug
def vote_not_persisted() -> list[Patch]:
    """Forget a voter's vote and epoch at a restart."""
    return [patch.object(quorum_state, "write", lambda *arguments, **named: None)]


@bug
def votes_for_anybody() -> list[Patch]:
    """Grant every vote, even to a candidate with an older log."""

    def grants(state: Any, source: Any, request: Any) -> bool:
        return request.pre_vote or state.election.voted in (None, source)

    return [patch.object(voting, "_grants", grants)]


@bug
def quorum_of_one() -> list[Patch]:
    """Commit records that only the active controller has."""
    return [patch.object(leading, "held_by_majority", lambda ends: max(ends))]


# -- transactions --------------------------------------------------------------------------


@bug
def markers_of_any_epoch() -> list[Patch]:
    """Accept a transaction marker with any producer and coordinator epoch."""
    return [patch.object(ProducerState, "check_marker", lambda self, *arguments, **named: None)]


@bug
def partitions_not_added() -> list[Patch]:
    """Report a partition as added to the transaction without recording it."""
    return [patch.object(partitions, "_add", lambda *arguments: None)]


# -- machines ------------------------------------------------------------------------------


@bug
def placement_ignores_hosts() -> list[Patch]:
    """Place the replicas of new partitions as if each broker had its own machine."""
    return [patch.object(BrokerImage, "host", property(lambda self: (("", str(self.node_id)),)))]


@bug
def drain_ignores_hosts() -> list[Patch]:
    """Move the replicas of a drained node to the nodes with the fewest, wherever they are."""

    def choose(state: Any, leaving: int, targets: Any, locations: Any, loads: Any) -> Any:
        return min((node for node in targets if node not in state.replicas), key=lambda node: (loads[node], node))

    return [patch.object(replica_plan, "_choose", choose)]


@bug
def rebalance_ignores_hosts() -> list[Patch]:
    """Spread replicas evenly over nodes, whether or not they then share a machine."""
    return [
        patch.object(replica_plan, "_separate", lambda state, targets, locations, loads: state),
        patch.object(replica_plan, "_may_take", lambda state, source, target, locations: target not in state.replicas),
    ]
