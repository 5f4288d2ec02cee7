"""Following a leader: fetching its log, and cutting one's own where the two part.

The next fetch leaves only when everything appended is durable, because the leader
counts a fetch offset towards the majority. Answers to anything but the fetch under way
are ignored: a late one might cut what has been fetched since.
"""

from dataclasses import replace

from penstock.model.ids import LeaderEpoch, NodeId
from penstock.raft.events import ElectionState, SnapshotNews
from penstock.raft.messages import EndQuorumEpochRequest, FetchError, FetchRequest, FetchResponse
from penstock.raft.roles import Candidate, Follower, Prospective, Unattached
from penstock.raft.state import State


def observe(state: State, source: NodeId, epoch: LeaderEpoch, leader: NodeId | None, now: float) -> None:
    """Take note of an epoch, and of its leader if the message names one.

    A voter that has lost its leader believes only the leader itself that it is back: were the
    word of another voter enough, two survivors would send each other back to a dead leader.
    """
    if epoch > state.epoch:
        if leader is None:
            deadline = state.election_deadline(now)
            # The new epoch must not buy time for nothing: an election already due stays due.
            if isinstance(state.role, Unattached | Prospective | Candidate):
                deadline = min(deadline, max(state.role.deadline, now))
            state.enter(Unattached(deadline=deadline), ElectionState(epoch=epoch, blank=state.election.blank))
        elif leader != state.node_id:
            _follow(state, ElectionState(epoch=epoch, leader=leader, blank=state.election.blank), now)
    elif epoch == state.epoch and leader is not None and leader != state.node_id:
        assert state.election.leader in (None, leader), "one leader per epoch"
        # An observer, or a voter that must not stand, can do no harm by trying.
        is_news = state.election.leader is None or source == leader or not state.may_stand
        if is_news and isinstance(state.role, Unattached | Prospective | Candidate):
            _follow(state, replace(state.election, leader=leader), now)


def _follow(state: State, election: ElectionState, now: float) -> None:
    assert election.leader is not None and election.leader != state.node_id
    state.enter(Follower(leader=election.leader, deadline=now + state.timing.fetch_timeout), election)
    fetch(state, now)


def fetch(state: State, now: float) -> None:
    """Fetch from the log's end, unless a fetch is under way or something is not durable yet."""
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


def look_for_leader(state: State, now: float) -> None:
    """Ask one of the voters: its refusal names the leader. For those who do not stand for election."""
    deadline = now + state.timing.fetch_wait * (0.5 + state.random.random())
    if isinstance(state.role, Unattached):
        state.role.deadline = deadline
    else:
        state.enter(Unattached(deadline=deadline), state.election)
    if state.others and state.log.durable_offset == state.log.end_offset:
        _send_fetch(state, state.random.choice(state.others))


def hear_lost(state: State, role: Follower | Unattached, node: NodeId, now: float) -> None:
    """The leader's process is gone: nobody will hear from it, so nobody needs to wait for it."""
    if isinstance(role, Follower) and role.leader == node:
        role.has_fetched = False
        role.deadline = min(role.deadline, state.gone_deadline(now))
    elif isinstance(role, Unattached) and not state.may_stand:
        role.deadline = min(role.deadline, state.gone_deadline(now))


def pass_time(state: State, role: Follower, now: float) -> None:
    """Try a lost fetch again. The fetch timeout itself leads to an election: see `core.py`."""
    if role.request_id is None or now >= role.retry_at:
        role.request_id = None
        fetch(state, now)


def hear_response(state: State, source: NodeId, response: FetchResponse, now: float) -> None:
    role = state.role
    if not isinstance(role, Follower) or source != role.leader or response.epoch != state.epoch:
        return
    if response.request_id != role.request_id:
        return
    if response.error is not FetchError.NONE:
        # The same epoch and yet refused: the leader has resigned, and somebody must stand soon.
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


def hear_snapshot_news(state: State, news: SnapshotNews, now: float) -> None:
    """A leader that sends its snapshot is there, although it is not fetched from meanwhile."""
    role = state.role
    if not isinstance(role, Follower) or role.loading_snapshot != news.snapshot:
        return
    if news.there:
        role.deadline = now + state.timing.fetch_timeout
    else:
        role.loading_snapshot = None
        fetch(state, now)


def advance(state: State) -> None:
    """Take over the leader's high watermark, as far as this log is durable."""
    role = state.role
    if isinstance(role, Follower):
        mark = role.leader_high_watermark
        state.advance_high_watermark(min(mark, state.log.durable_offset))
        # All that the leader knows to be committed is here, and it knows all: it has committed in its own epoch.
        if state.election.blank and state.log.start_of(state.epoch) < mark <= state.log.durable_offset:
            state.remember(replace(state.election, blank=False))


def hear_end(state: State, source: NodeId, request: EndQuorumEpochRequest, now: float) -> None:
    """The leader steps down: the best successor stands at once, the others give it a head start."""
    role = state.role
    if not isinstance(role, Follower) or role.leader != source or request.epoch != state.epoch:
        return
    role.has_fetched = False
    successors = request.preferred_successors
    place = successors.index(state.node_id) if state.node_id in successors else len(successors)
    pause = 0.0 if place == 0 else state.timing.election_backoff_max * (place - 1 + state.random.random())
    role.deadline = min(role.deadline, now + pause)
