"""The rules of a follower: fetch the leader's log, and truncate the own log where the two diverge.

The next fetch is sent only when everything appended is durable, because the leader
counts the fetch offset towards the majority. Responses to other fetches than the one in flight
are ignored: a late one might truncate records fetched since.
"""

from dataclasses import replace

from penstock.model.ids import LeaderEpoch, NodeId
from penstock.raft.events import ElectionState, SnapshotStatus
from penstock.raft.messages import EndQuorumEpochRequest, FetchError, FetchRequest, FetchResponse
from penstock.raft.roles import Candidate, Follower, Prospective, Unattached
from penstock.raft.state import State


def observe(state: State, source: NodeId, epoch: LeaderEpoch, leader: NodeId | None, now: float) -> None:
    """Take note of an epoch, and of its leader if the message names one.

    A voter that has lost its leader returns to it only after a message from the leader itself: if the
    word of another voter were enough, two survivors would send each other back to a dead leader.
    """
    if epoch > state.epoch:
        if leader is None:
            deadline = state.election_deadline(now)
            # The new epoch must not postpone an election that is already due.
            if isinstance(state.role, Unattached | Prospective | Candidate):
                deadline = min(deadline, max(state.role.deadline, now))
            state.enter(Unattached(deadline=deadline), ElectionState(epoch=epoch, blank=state.election.blank))
        elif leader != state.node_id:
            _follow(state, ElectionState(epoch=epoch, leader=leader, blank=state.election.blank), now)
    elif epoch == state.epoch and leader is not None and leader != state.node_id:
        assert state.election.leader in (None, leader), "one leader per epoch"
        # Observers, and voters that must not stand for election, may always try.
        may_follow = state.election.leader is None or source == leader or not state.may_stand
        if may_follow and isinstance(state.role, Unattached | Prospective | Candidate):
            _follow(state, replace(state.election, leader=leader), now)


def _follow(state: State, election: ElectionState, now: float) -> None:
    assert election.leader is not None and election.leader != state.node_id
    state.enter(Follower(leader=election.leader, deadline=now + state.timing.fetch_timeout), election)
    fetch(state, now)


def fetch(state: State, now: float) -> None:
    """Fetch from the end of the log, unless a fetch is in flight or part of the log is not durable."""
    role = state.role
    if not isinstance(role, Follower) or role.request_id is not None or role.loading_snapshot is not None:
        return
    if state.log.durable_offset < state.log.end_offset:
        return
    role.retry_at = now + state.timing.request_timeout
    role.request_id = _send_fetch(state, role.leader)


def _send_fetch(state: State, to: NodeId) -> int:
    state.next_request_id += 1
    request = FetchRequest(
        epoch=state.epoch,
        request_id=state.next_request_id,
        fetch_offset=state.log.end_offset,
        last_fetched_epoch=state.log.last_epoch,
        high_watermark=state.high_watermark,
        disk=state.disk,
    )
    state.send(to, request)
    return state.next_request_id


def find_leader(state: State, now: float) -> None:
    """Ask a random voter, whose error response names the leader. For nodes that do not stand for election."""
    deadline = now + state.timing.fetch_wait * (0.5 + state.random.random())
    if isinstance(state.role, Unattached):
        state.role.deadline = deadline
    else:
        state.enter(Unattached(deadline=deadline), state.election)
    if state.others and state.log.durable_offset == state.log.end_offset:
        _send_fetch(state, state.random.choice(state.others))


def ask_last_leader(state: State) -> None:
    """Fetch once from the last known leader, so that it names itself if it still leads.

    Leaders announce themselves only to their voters. The leader may have removed this one, which may not know it.
    """
    leader = state.election.leader
    if leader not in (None, state.node_id) and state.log.durable_offset == state.log.end_offset:
        assert leader is not None
        _send_fetch(state, leader)


def handle_peer_lost(state: State, role: Follower | Unattached, node: NodeId, now: float) -> None:
    """Shorten the wait for a leader whose process has exited, as it will not send anything."""
    if isinstance(role, Follower) and role.leader == node:
        role.has_fetched = False
        role.deadline = min(role.deadline, state.lost_peer_deadline(now))
    elif isinstance(role, Unattached) and not state.may_stand:
        role.deadline = min(role.deadline, state.lost_peer_deadline(now))


def pass_time(state: State, role: Follower, now: float) -> None:
    """Retry a lost fetch. `core.py` handles the fetch timeout, which leads to an election."""
    if role.request_id is None or now >= role.retry_at:
        role.request_id = None
        fetch(state, now)


def handle_response(state: State, source: NodeId, response: FetchResponse, now: float) -> None:
    role = state.role
    if not isinstance(role, Follower) or source != role.leader or response.epoch != state.epoch:
        return
    if response.request_id != role.request_id:
        return
    if response.error is not FetchError.NONE:
        # An error in the same epoch means that the leader has resigned, so an election is needed soon.
        role.has_fetched = False
        role.deadline = min(role.deadline, state.backoff_deadline(now))
        return
    role.request_id = None
    role.has_fetched = True
    role.deadline = now + state.timing.fetch_timeout
    if response.snapshot is not None:
        role.loading_snapshot = response.snapshot
        return
    if response.diverging is not None:
        state.truncate_to(state.log.common_end(response.diverging))
    else:
        for batch in response.batches:
            state.append(batch)
        role.leader_high_watermark = max(role.leader_high_watermark, response.high_watermark)
    advance(state)
    fetch(state, now)


def handle_snapshot_status(state: State, status: SnapshotStatus, now: float) -> None:
    """Extend the fetch timeout while the leader sends its snapshot, as no fetch is sent meanwhile."""
    role = state.role
    if not isinstance(role, Follower) or role.loading_snapshot != status.snapshot:
        return
    if status.is_available:
        role.deadline = now + state.timing.fetch_timeout
    else:
        role.loading_snapshot = None
        fetch(state, now)


def advance(state: State) -> None:
    """Adopt the leader's high watermark, as far as this log is durable."""
    role = state.role
    if isinstance(role, Follower):
        mark = role.leader_high_watermark
        state.advance_high_watermark(min(mark, state.log.durable_offset))
        # This log has everything that the leader has committed, including a record of the leader's epoch.
        if state.election.blank and state.log.start_of(state.epoch) < mark <= state.log.durable_offset:
            state.remember(replace(state.election, blank=False))


def handle_end_quorum_epoch(state: State, source: NodeId, request: EndQuorumEpochRequest, now: float) -> None:
    """Stand for election when the leader steps down: the best successor immediately, the others later."""
    role = state.role
    if not isinstance(role, Follower) or role.leader != source or request.epoch != state.epoch:
        return
    role.has_fetched = False
    successors = request.preferred_successors
    position = successors.index(state.node_id) if state.node_id in successors else len(successors)
    pause = 0.0 if position == 0 else state.timing.election_backoff_max * (position - 1 + state.random.random())
    role.deadline = min(role.deadline, now + pause)
