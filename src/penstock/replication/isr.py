"""A leader's view of its followers: which ones the high watermark waits for, which may join or must leave the ISR.

Pure: takes offsets, times and facts about brokers, returns the high watermark and proposals for the ISR. There is one
`Leadership` per leader epoch of a partition. partition.py calls it, alter_isr.py sends its proposals to the
controller. The rules are in docs/internals/replication.md.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from penstock.model.ids import NodeId

NEVER = float("-inf")
NO_BROKER_EPOCH = -1


def effective_min_isr(min_insync_replicas: int, *, replica_count: int) -> int:
    """Return the required ISR size: a topic with one replica can be written even if min.insync.replicas is two."""
    return min(min_insync_replicas, replica_count)


class FollowerProgress:
    """The progress of one follower, as shown by its fetches."""

    __slots__ = (
        "broker_epoch",
        "caught_up_at",
        "end_at_fetch",
        "fetched_at",
        "joining",
        "log_start_offset",
        "node_id",
        "offset",
        "sent_offset",
    )

    def __init__(self, node_id: NodeId, *, caught_up_at: float = NEVER) -> None:
        self.node_id = node_id
        self.offset = -1
        self.log_start_offset = -1
        self.broker_epoch = NO_BROKER_EPOCH
        self.caught_up_at = caught_up_at
        self.fetched_at = NEVER
        self.end_at_fetch = -1
        # The first offset of the records that were sent last.
        self.sent_offset = -1
        # Whether the high watermark waits for this follower outside the ISR: it may join and is close behind.
        self.joining = False

    def fetched(self, offset: int, log_start_offset: int, broker_epoch: int, *, leader_end: int, now: float) -> None:
        """Record a fetch: the follower holds everything before its offset."""
        if offset >= leader_end:
            self.caught_up_at = now
        elif offset >= self.end_at_fetch >= 0 and self.fetched_at > self.caught_up_at:
            # It has everything that the log held at its previous fetch.
            self.caught_up_at = self.fetched_at
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self.fetched_at = now
        self.end_at_fetch = leader_end

    def session_fetched(self, *, leader_end: int, last_fetch_at: float) -> None:
        """Record a fetch of the follower's session that does not name this partition: its offset is unchanged."""
        if self.offset >= leader_end and last_fetch_at > self.caught_up_at:
            self.caught_up_at = last_fetch_at


def advance_high_watermark(mark: int, durable_offset: int, counted: Sequence[FollowerProgress]) -> int:
    """Return the offset up to which the leader and every follower that counts hold the log durably.

    The mark never moves back. A replica may rejoin with a shorter log, but what
    a consumer has once been shown must stay readable.
    """
    bound = durable_offset
    for follower in counted:
        if follower.offset < bound:
            bound = follower.offset
    return bound if bound > mark else mark


_NO_FOLLOWERS: Mapping[NodeId, FollowerProgress] = {}
"""Shared by the partitions without other replicas."""


class Proposal(NamedTuple):
    """An ISR that the leader proposes to the controller."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[NodeId, ...]
    broker_epochs: tuple[int, ...]


class Leadership:
    """One leader epoch of one partition: the followers, the committed ISR, the proposal in flight."""

    __slots__ = (
        "_broker_epoch",
        "_maximal",
        "_node_id",
        "counted",
        "epoch",
        "epoch_start",
        "followers",
        "isr",
        "partition_epoch",
        "proposal",
        "replicas",
    )

    def __init__(
        self,
        node_id: NodeId,
        *,
        epoch: int,
        epoch_start: int,
        partition_epoch: int,
        replicas: tuple[NodeId, ...],
        isr: tuple[NodeId, ...],
        now: float,
    ) -> None:
        self._node_id = node_id
        self.epoch = epoch
        self.epoch_start = epoch_start
        self.partition_epoch = partition_epoch
        self.replicas = replicas
        self.isr = isr
        self.proposal: Proposal | None = None
        # A new leader gives members of the ISR the full lag time to send their first fetch.
        self.followers: Mapping[NodeId, FollowerProgress] = {
            each: FollowerProgress(each, caught_up_at=now if each in isr else NEVER)
            for each in replicas
            if each != node_id
        } or _NO_FOLLOWERS
        self._recount()

    # -- committed changes -------------------------------------------------------------------

    def commit(self, *, partition_epoch: int, replicas: tuple[NodeId, ...], isr: tuple[NodeId, ...]) -> bool:
        """Apply a committed state; return False if it is not newer than the known one."""
        if partition_epoch <= self.partition_epoch:
            return False
        if replicas != self.replicas:
            known = self.followers
            self.followers = {
                each: known.get(each) or FollowerProgress(each) for each in replicas if each != self._node_id
            } or _NO_FOLLOWERS
        self.partition_epoch = partition_epoch
        self.replicas = replicas
        self.isr = isr
        # The proposal was based on an older state, so it has been accepted or rejected by now.
        self.proposal = None
        self._recount()
        return True

    def next_epoch(self, *, epoch: int, epoch_start: int) -> None:
        """Continue as leader in the next epoch, keeping the progress of the followers."""
        self.epoch = epoch
        self.epoch_start = epoch_start
        self.proposal = None
        self._recount()

    # -- in-sync replicas ----------------------------------------------------------------------

    def is_member(self, node_id: NodeId) -> bool:
        """Return whether the node is in the maximal ISR: the committed one, or the one that is proposed."""
        return node_id in self._maximal

    def _recount(self) -> None:
        self._maximal = self.isr if self.proposal is None else (*self.isr, *self.proposal.isr)
        for follower in self.followers.values():
            if follower.node_id in self._maximal:
                follower.joining = False
        # The followers that the high watermark waits for.
        self.counted = tuple(each for each in self.followers.values() if each.joining or each.node_id in self._maximal)

    # -- proposals -----------------------------------------------------------------------------

    def expand_isr(
        self, follower: FollowerProgress, *, mark: int, now: float, lag_s_max: float, allowed: bool
    ) -> Proposal | None:
        """Return the proposal to make after a fetch of a follower outside the ISR. `allowed`: its broker may join."""
        close = allowed and now - follower.caught_up_at <= lag_s_max
        if close != follower.joining:
            follower.joining = close
            self._recount()
        if not allowed or self.proposal is not None or follower.offset < mark or follower.offset < self.epoch_start:
            return None
        return self._propose((*self.isr, follower.node_id))

    def shrink_isr(self, *, leader_end: int, now: float, lag_s_max: float) -> Proposal | None:
        """Return the proposal that removes members which have lagged for too long; None if there are none."""
        late = []
        for follower in self.followers.values():
            if now - follower.caught_up_at > lag_s_max and follower.offset < leader_end:
                late.append(follower.node_id)
                if follower.joining:
                    follower.joining = False
                    self._recount()
        staying = tuple(each for each in self.isr if each not in late)
        if self.proposal is not None or staying == self.isr:
            return None
        return self._propose(staying)

    def _propose(self, isr: tuple[NodeId, ...]) -> Proposal:
        self.proposal = Proposal(
            self.epoch,
            self.partition_epoch,
            isr,
            tuple(self.followers[each].broker_epoch if each in self.followers else NO_BROKER_EPOCH for each in isr),
        )
        self._recount()
        return self.proposal

    def withdraw(self, proposal: Proposal) -> None:
        """Drop a proposal that the controller rejected without changing anything."""
        if self.proposal is proposal:
            self.proposal = None
            self._recount()

    def low_watermark(self, own_start: int, *, is_alive: Callable[[NodeId], bool]) -> int:
        """Return the lowest log start of the live replicas: none of them has records below it."""
        starts = [each.log_start_offset for each in self.followers.values() if is_alive(each.node_id)]
        return min([own_start, *starts])


def most_caught_up(
    followers: Mapping[NodeId, FollowerProgress], *, among: Sequence[NodeId], offset: int
) -> NodeId | None:
    """Return the replica to read an offset from: of those that have it, the one with the highest end (KIP-392)."""
    best: FollowerProgress | None = None
    for node_id in among:
        follower = followers.get(node_id)
        if follower is None or follower.offset < offset or not 0 <= follower.log_start_offset <= offset:
            continue
        if best is None or follower.offset > best.offset:
            best = follower
    return None if best is None else best.node_id
