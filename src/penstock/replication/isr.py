"""What the leader of a partition knows of its followers: who counts, who may join, who must leave.

Pure: offsets, times and facts about brokers come in, the bound of the high watermark and proposals for
the in-sync set come out. One `Leadership` per leader epoch of one partition; partition.py asks it,
alter_isr.py carries its proposals to the controller. The rules stand in docs/internals/replication.md.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from penstock.model.ids import NodeId

NEVER = float("-inf")
NO_BROKER_EPOCH = -1


def effective_min_isr(min_insync_replicas: int, *, replica_count: int) -> int:
    """A topic of one replica can be written although min.insync.replicas says two."""
    return min(min_insync_replicas, replica_count)


class FollowerProgress:
    """How far one follower has come, as its fetches have shown."""

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
        # Where the records began that were sent last.
        self.sent_offset = -1
        # Not in the set, allowed in, and close behind: the mark waits for it.
        self.joining = False

    def fetched(self, offset: int, log_start_offset: int, broker_epoch: int, *, leader_end: int, now: float) -> None:
        """A fetch from an offset says that everything before it is held."""
        if offset >= leader_end:
            self.caught_up_at = now
        elif offset >= self.end_at_fetch >= 0 and self.fetched_at > self.caught_up_at:
            # It has all that was there when it last asked.
            self.caught_up_at = self.fetched_at
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self.fetched_at = now
        self.end_at_fetch = leader_end

    def session_fetched(self, *, leader_end: int, last_fetch_at: float) -> None:
        """A session that asks without naming this partition holds what it held: that much is up to date."""
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


class Proposal(NamedTuple):
    """A change of the in-sync set that the controller is asked for."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[NodeId, ...]
    broker_epochs: tuple[int, ...]


class Leadership:
    """One epoch of leading one partition: the followers, the committed set, the proposal under way."""

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
        # Members get as long as any other to show themselves to a new leader.
        self.followers: dict[NodeId, FollowerProgress] = {
            each: FollowerProgress(each, caught_up_at=now if each in isr else NEVER)
            for each in replicas
            if each != node_id
        }
        self._recount()

    # -- the image, and answers of the controller --------------------------------------------

    def commit(self, *, partition_epoch: int, replicas: tuple[NodeId, ...], isr: tuple[NodeId, ...]) -> bool:
        """Take over what is committed; False if it is no later than what is known."""
        if partition_epoch <= self.partition_epoch:
            return False
        if replicas != self.replicas:
            known = self.followers
            self.followers = {
                each: known.get(each) or FollowerProgress(each) for each in replicas if each != self._node_id
            }
        self.partition_epoch = partition_epoch
        self.replicas = replicas
        self.isr = isr
        # Whatever was proposed was based on an older state: it has won or lost by now.
        self.proposal = None
        self._recount()
        return True

    def next_epoch(self, *, epoch: int, epoch_start: int) -> None:
        """The same node goes on leading in the following epoch: what its followers hold stays true."""
        self.epoch = epoch
        self.epoch_start = epoch_start
        self.proposal = None
        self._recount()

    # -- the in-sync set -----------------------------------------------------------------------

    def is_member(self, node_id: NodeId) -> bool:
        """Whether the node is, or may be by now, in the in-sync set."""
        return node_id in self._maximal

    def _recount(self) -> None:
        self._maximal = self.isr if self.proposal is None else (*self.isr, *self.proposal.isr)
        for follower in self.followers.values():
            if follower.node_id in self._maximal:
                follower.joining = False
        # Those that the mark waits for.
        self.counted = tuple(each for each in self.followers.values() if each.joining or each.node_id in self._maximal)

    # -- proposals -----------------------------------------------------------------------------

    def expand_isr(
        self, follower: FollowerProgress, *, mark: int, now: float, lag_s_max: float, allowed: bool
    ) -> Proposal | None:
        """What to propose after a fetch of a follower outside the set. `allowed`: its broker may be a member."""
        close = allowed and now - follower.caught_up_at <= lag_s_max
        if close != follower.joining:
            follower.joining = close
            self._recount()
        if not allowed or self.proposal is not None or follower.offset < mark or follower.offset < self.epoch_start:
            return None
        return self._propose((*self.isr, follower.node_id))

    def shrink_isr(self, *, leader_end: int, now: float, lag_s_max: float) -> Proposal | None:
        """What to propose about members that have not been caught up for too long."""
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
        """The controller has changed nothing and never will for this proposal."""
        if self.proposal is proposal:
            self.proposal = None
            self._recount()

    def low_watermark(self, own_start: int, *, is_alive: Callable[[NodeId], bool]) -> int:
        """The lowest log start of the living replicas: below it nobody keeps anything."""
        starts = [each.log_start_offset for each in self.followers.values() if is_alive(each.node_id)]
        return min([own_start, *starts])


def most_caught_up(
    followers: Mapping[NodeId, FollowerProgress], *, among: Sequence[NodeId], offset: int
) -> NodeId | None:
    """The replica to read an offset from, of those that hold it: the one that has most (KIP-392)."""
    best: FollowerProgress | None = None
    for node_id in among:
        follower = followers.get(node_id)
        if follower is None or follower.offset < offset or not 0 <= follower.log_start_offset <= offset:
            continue
        if best is None or follower.offset > best.offset:
            best = follower
    return None if best is None else best.node_id
