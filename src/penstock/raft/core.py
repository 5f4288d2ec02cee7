"""The consensus core of one node, voter or observer: `step(event, now)` gives effects, and nothing else happens.

Pure: no clock, no disk, no network; chance is a seeded generator handed in. The duties of
whoever drives it are listed in `events.py`, the roles in `roles.py`. Each role's rules live
in a module of their own: `voting`, `following`, `leading`.
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
    Heard,
    LogStartMoved,
    PeerLost,
    Received,
    Resign,
    SnapshotLoaded,
    SnapshotNews,
    Started,
    Synced,
    TimePassed,
    Unanswered,
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
        """Take what the node has persisted; the log's durable offset must be its end, as after a restart."""
        assert log.durable_offset == log.end_offset, "what is read back after a start is durable"
        assert log.last_epoch <= election.epoch, "the epoch is persisted before records of it are written"
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
    def leader_to_name(self) -> NodeId | None:
        """Whom to name to others as leader."""
        return self._state.leader_to_name

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
        """Everything below is committed. After a start, unknown until the first effect names it."""
        return self._state.high_watermark

    @property
    def has_committed(self) -> bool:
        """Whether this node leads and something of its own epoch is committed: it knows all that is."""
        role = self._state.role
        return isinstance(role, Leader) and self._state.high_watermark > role.epoch_start

    @property
    def loading_snapshot(self) -> EpochEnd | None:
        """The snapshot that this voter needs from its leader before it can go on."""
        role = self._state.role
        return role.loading_snapshot if isinstance(role, Follower) else None

    @property
    def log(self) -> LogShape:
        return self._state.log

    def step(self, event: Event, now: float) -> Effects:
        """Take in one event; return what the driver must do before the next one."""
        state = self._state
        match event:
            case Started():
                self._start(now)
            case TimePassed():
                self._pass_time(now)
            case Received(source=source, message=message):
                # Voters may differ for a while on who is one, so messages count whoever they come from;
                # only the votes and the progress of this node's voters are ever added up.
                if source != state.node_id:
                    self._receive(source, message, now)
            case Appended(last_offset=last_offset):
                assert self.is_leader, "only the leader appends of its own accord"
                state.log.append(last_offset=last_offset, epoch=state.epoch)
                leading.answer_parked(state)
            case Synced(end_offset=end_offset):
                self._sync(end_offset, now)
            case Resign():
                if isinstance(state.role, Leader):
                    leading.resign(state, state.role, now)
            case PeerLost(node=node):
                self._lose(node, now)
            case Unanswered(request_id=request_id):
                if isinstance(state.role, Follower) and state.role.request_id == request_id:
                    state.role.retry_at = min(state.role.retry_at, now + state.timing.retry_backoff)
            case SnapshotNews():
                following.hear_snapshot_news(state, event, now)
            case Heard(node=node):
                if isinstance(state.role, Leader) and node in state.role.progress:
                    state.role.progress[node].heard_at = now
            case ChangeVoters():
                assert isinstance(state.role, Leader), "only the leader changes the voters"
                leading.change_voters(state, state.role, event, now)
            case LogStartMoved(snapshot=snapshot):
                assert snapshot.end_offset <= state.high_watermark, "a snapshot contains only what is committed"
                state.log.start_at(snapshot)
                state.history.start_at(snapshot.end_offset)
            case SnapshotLoaded():
                self._load_snapshot(event, now)
        effects = state.take_effects()
        effects.deadline = self._deadline()
        return effects

    def _start(self, now: float) -> None:
        state = self._state
        # Whoever leads names itself in the answer to the question whether this voter could: no need to wait for it.
        deadline = state.gone_deadline(now)
        led = state.election.leader == state.node_id
        state.role = Resigned(deadline=deadline) if led else Unattached(deadline=deadline)
        if not state.may_stand:
            following.look_for_leader(state, now)
        elif not state.others:
            voting.stand(state, now)

    def _pass_time(self, now: float) -> None:
        state = self._state
        role = state.role
        match role:
            case Unattached() | Resigned():
                if now >= role.deadline:
                    self._act(now)
            case Follower():
                if now >= role.deadline:
                    self._act(now)
                else:
                    following.pass_time(state, role, now)
            case Prospective() | Candidate():
                voting.pass_time(state, role, now)
            case Leader():
                leading.pass_time(state, role, now)

    def _act(self, now: float) -> None:
        """Patience is over: find a leader, or be one."""
        if self._state.may_stand:
            voting.stand(self._state, now)
        else:
            following.look_for_leader(self._state, now)

    def _lose(self, node: NodeId, now: float) -> None:
        state = self._state
        match state.role:
            case Follower() | Unattached():
                following.hear_lost(state, state.role, node, now)
            case Prospective() | Candidate():
                voting.hear_lost(state, state.role, node, now)

    def _receive(self, source: NodeId, message: Message, now: float) -> None:
        state = self._state
        match message:
            case VoteRequest():
                following.observe(state, source, message.epoch, None, now)
                voting.hear_request(state, source, message, now)
            case VoteResponse():
                following.observe(state, source, message.epoch, message.leader, now)
                voting.hear_response(state, source, message, now)
            case BeginQuorumEpochRequest():
                following.observe(state, source, message.epoch, source, now)
                state.send(source, BeginQuorumEpochResponse(epoch=state.epoch, leader=state.leader_to_name))
            case BeginQuorumEpochResponse():
                following.observe(state, source, message.epoch, message.leader, now)
            case EndQuorumEpochRequest():
                following.observe(state, source, message.epoch, source, now)
                following.hear_end(state, source, message, now)
            case FetchRequest():
                leading.hear_fetch(state, source, message, now)
                if isinstance(state.role, Leader):
                    leading.leave_if_removed(state, state.role, now)
            case FetchResponse():
                following.observe(state, source, message.epoch, message.leader, now)
                following.hear_response(state, source, message, now)

    def _sync(self, end_offset: Offset, now: float) -> None:
        state = self._state
        assert end_offset <= state.log.end_offset, "nothing is durable that is not in the log"
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
            "only followers load, what they asked for"
        )
        assert snapshot.end_offset >= state.high_watermark, "a snapshot never takes anything back"
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
