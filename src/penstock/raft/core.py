"""The Raft core of one node, voter or observer: `step(event, now)` returns effects and does nothing else.

Pure: no clock, no disk, no network; random numbers come from a seeded generator. The driver's
duties are listed in `events.py`, the roles in `roles.py`. The rules of the roles are in
`voting`, `following` and `leading`.
"""

from random import Random
from uuid import UUID

from penstock.model.ids import LeaderEpoch, NodeId, Offset
from penstock.raft import following, leading, voting
from penstock.raft.events import (
    Appended,
    ChangeVoters,
    Effects,
    ElectionState,
    Event,
    FetchFailed,
    Heard,
    LogStartMoved,
    PeerLost,
    Received,
    Resign,
    SnapshotLoaded,
    SnapshotStatus,
    Started,
    Synced,
    TimePassed,
)
from penstock.raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EpochEnd,
    FetchRequest,
    FetchResponse,
    Message,
    VoteRequest,
    VoteResponse,
)
from penstock.raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from penstock.raft.shape import LogShape
from penstock.raft.state import State, Timing
from penstock.raft.voters import VoterHistory, Voters


class Core:
    def __init__(
        self,
        *,
        node_id: NodeId,
        voters: frozenset[NodeId] | VoterHistory,
        election: ElectionState,
        log: LogShape,
        random: Random,
        timing: Timing | None = None,
        disk: UUID | None = None,
    ) -> None:
        """Start from the persisted state; the log must be durable up to its end, as after a restart."""
        assert log.durable_offset == log.end_offset, "a log must be durable up to its end after a start"
        assert log.last_epoch <= election.epoch, "an epoch must be persisted before its records are written"
        self._state = State(
            node_id=node_id,
            voters=voters if isinstance(voters, VoterHistory) else VoterHistory(voters),
            election=election,
            log=log,
            timing=timing or Timing(),
            random=random,
            disk=disk,
        )

    @property
    def node_id(self) -> NodeId:
        return self._state.node_id

    @property
    def epoch(self) -> LeaderEpoch:
        return self._state.epoch

    @property
    def role(self) -> Role:
        return self._state.role

    @property
    def leader(self) -> NodeId | None:
        return self._state.election.leader

    @property
    def advertised_leader(self) -> NodeId | None:
        """Return the leader to name in responses."""
        return self._state.advertised_leader

    @property
    def voters(self) -> Voters:
        return self._state.voters

    @property
    def is_voter(self) -> bool:
        return self._state.node_id in self._state.voters

    @property
    def may_change_voters(self) -> bool:
        role = self._state.role
        return isinstance(role, Leader) and leading.may_change_voters(self._state, role)

    @property
    def is_leader(self) -> bool:
        return isinstance(self._state.role, Leader)

    @property
    def high_watermark(self) -> Offset:
        """Return the offset below which everything is committed; unknown after a start until the first effect."""
        return self._state.high_watermark

    @property
    def has_committed(self) -> bool:
        """Return whether this node leads and has committed a record of its epoch, so that it knows all commits."""
        role = self._state.role
        return isinstance(role, Leader) and self._state.high_watermark > role.epoch_start

    @property
    def loading_snapshot(self) -> EpochEnd | None:
        """Return the snapshot that this node must fetch from its leader, if any."""
        role = self._state.role
        return role.loading_snapshot if isinstance(role, Follower) else None

    @property
    def log(self) -> LogShape:
        return self._state.log

    def step(self, event: Event, now: float) -> Effects:
        """Handle one event; return what the driver must do before the next one."""
        state = self._state
        match event:
            case Started():
                self._start(now)
            case TimePassed():
                self._pass_time(now)
            case Received(source=source, message=message):
                # Voters may temporarily disagree about the set of voters, so messages of all nodes are handled;
                # but only votes and progress of nodes that this node knows as voters are counted.
                if source != state.node_id:
                    self._receive(source, message, now)
            case Appended(last_offset=last_offset):
                assert self.is_leader, "only the leader appends"
                state.log.append(last_offset=last_offset, epoch=state.epoch)
                leading.answer_parked(state)
            case Synced(end_offset=end_offset):
                self._sync(end_offset, now)
            case Resign():
                if isinstance(state.role, Leader):
                    leading.resign(state, state.role, now)
            case PeerLost(node=node):
                self._handle_peer_lost(node, now)
            case FetchFailed(request_id=request_id):
                if isinstance(state.role, Follower) and state.role.request_id == request_id:
                    state.role.retry_at = min(state.role.retry_at, now + state.timing.retry_backoff)
            case SnapshotStatus():
                following.handle_snapshot_status(state, event, now)
            case Heard(node=node):
                if isinstance(state.role, Leader) and node in state.role.progress:
                    state.role.progress[node].heard_at = now
            case ChangeVoters():
                assert isinstance(state.role, Leader), "only the leader changes the voters"
                leading.change_voters(state, state.role, event, now)
            case LogStartMoved(snapshot=snapshot):
                assert snapshot.end_offset <= state.high_watermark, "a snapshot contains only committed records"
                state.log.start_at(snapshot)
                state.history.start_at(snapshot.end_offset)
            case SnapshotLoaded():
                self._load_snapshot(event, now)
        effects = state.take_effects()
        effects.deadline = self._deadline()
        return effects

    def _start(self, now: float) -> None:
        state = self._state
        # A short deadline suffices: if there is a leader, it names itself in its response to the pre-vote.
        deadline = state.lost_peer_deadline(now)
        led = state.election.leader == state.node_id
        state.role = Resigned(deadline=deadline) if led else Unattached(deadline=deadline)
        if not state.may_stand:
            following.find_leader(state, now)
        elif not state.others:
            voting.stand(state, now)

    def _pass_time(self, now: float) -> None:
        state = self._state
        role = state.role
        match role:
            case Unattached() | Resigned():
                if now >= role.deadline:
                    self._handle_deadline(now)
            case Follower():
                if now >= role.deadline:
                    self._handle_deadline(now)
                else:
                    following.pass_time(state, role, now)
            case Prospective() | Candidate():
                voting.pass_time(state, role, now)
            case Leader():
                leading.pass_time(state, role, now)

    def _handle_deadline(self, now: float) -> None:
        """Handle an expired deadline: stand for election, or look for a leader."""
        if self._state.may_stand:
            voting.stand(self._state, now)
        else:
            following.find_leader(self._state, now)

    def _handle_peer_lost(self, node: NodeId, now: float) -> None:
        state = self._state
        match state.role:
            case Follower() | Unattached():
                following.handle_peer_lost(state, state.role, node, now)
            case Prospective() | Candidate():
                voting.handle_peer_lost(state, state.role, node, now)

    def _receive(self, source: NodeId, message: Message, now: float) -> None:
        state = self._state
        match message:
            case VoteRequest():
                following.observe(state, source, message.epoch, None, now)
                voting.handle_request(state, source, message, now)
            case VoteResponse():
                following.observe(state, source, message.epoch, message.leader, now)
                voting.handle_response(state, source, message, now)
            case BeginQuorumEpochRequest():
                following.observe(state, source, message.epoch, source, now)
                state.send(source, BeginQuorumEpochResponse(epoch=state.epoch, leader=state.advertised_leader))
            case BeginQuorumEpochResponse():
                following.observe(state, source, message.epoch, message.leader, now)
            case EndQuorumEpochRequest():
                following.observe(state, source, message.epoch, source, now)
                following.handle_end_quorum_epoch(state, source, message, now)
            case FetchRequest():
                leading.handle_fetch(state, source, message, now)
                if isinstance(state.role, Leader):
                    leading.leave_if_removed(state, state.role, now)
            case FetchResponse():
                following.observe(state, source, message.epoch, message.leader, now)
                following.handle_response(state, source, message, now)

    def _sync(self, end_offset: Offset, now: float) -> None:
        state = self._state
        assert end_offset <= state.log.end_offset, "the durable offset is beyond the end of the log"
        state.log.durable_offset = max(state.log.durable_offset, end_offset)
        leading.advance(state)
        following.advance(state)
        following.fetch(state, now)
        if isinstance(state.role, Leader):
            leading.leave_if_removed(state, state.role, now)

    def _load_snapshot(self, event: SnapshotLoaded, now: float) -> None:
        state = self._state
        role = state.role
        snapshot = event.snapshot
        assert isinstance(role, Follower) and role.loading_snapshot == snapshot, (
            "only a follower loads a snapshot, and only the one that it requested"
        )
        assert snapshot.end_offset >= state.high_watermark, "a snapshot must not end below the high watermark"
        state.log = LogShape(snapshot=snapshot)
        state.history.replaced(event.voters)
        state.advance_high_watermark(snapshot.end_offset)
        role.loading_snapshot = None
        following.fetch(state, now)

    def _deadline(self) -> float | None:
        state = self._state
        role = state.role
        match role:
            case Unattached() | Resigned():
                return role.deadline
            case Follower():
                return role.deadline if role.request_id is None else min(role.deadline, role.retry_at)
            case Prospective() | Candidate():
                return min(role.deadline, role.retry_at)
            case Leader():
                deadline = leading.next_deadline(state, role)
                return None if deadline == float("inf") else deadline
