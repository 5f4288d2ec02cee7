"""The rules of a leader: announce the epoch, answer fetches, advance the high watermark.

For itself the leader counts only what is durable on its disk, even as the only voter. A fetch
without new data waits for some. A leader that a majority no longer fetches from
resigns, so that its clients look for another.
"""

from collections.abc import Collection

from penstock.model.ids import NodeId, Offset
from penstock.raft.events import ChangeVoters, ElectionState
from penstock.raft.majority import held_by_majority, majority_count
from penstock.raft.messages import (
    Batch,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchError,
    FetchRequest,
    FetchResponse,
    LeaderChange,
)
from penstock.raft.roles import FollowerProgress, Leader, Resigned
from penstock.raft.state import State


def lead(state: State, now: float, *, granting: Collection[NodeId]) -> None:
    """Become the leader of the candidate's epoch."""
    start = state.log.end_offset
    role = Leader(
        epoch_start=start,
        begin_at=now,
        progress={voter: FollowerProgress(end=Offset(0), heard_at=now) for voter in state.others},
    )
    state.enter(role, ElectionState(epoch=state.epoch, leader=state.node_id, voted=state.node_id))
    change = LeaderChange(
        leader=state.node_id, voters=tuple(sorted(state.voters)), granting_voters=tuple(sorted(granting))
    )
    state.append(Batch(base_offset=start, last_offset=start, epoch=state.epoch, payload=change))
    _announce(state, role, state.others, now)


def resign(state: State, role: Leader, now: float) -> None:
    """Step down; name the successors in the order of their log ends."""
    successors = tuple(sorted(state.others, key=lambda voter: (-_progress(role, voter, now).end, voter)))
    state.enter(Resigned(deadline=state.election_deadline(now)), state.election)
    for voter in successors:
        state.send(voter, EndQuorumEpochRequest(epoch=state.epoch, preferred_successors=successors))


def pass_time(state: State, role: Leader, now: float) -> None:
    if now >= quorum_deadline(state, role):
        resign(state, role, now)
        return
    if now >= role.begin_at:
        silent = tuple(voter for voter in state.others if role.progress[voter].heard_at + _begin_interval(state) <= now)
        _announce(state, role, silent, now)
    for voter, (request, until) in list(role.parked.items()):
        if now >= until:
            _answer(state, role, voter, request)


def quorum_deadline(state: State, role: Leader) -> float:
    """Return when a majority, this leader included, will have been silent for too long."""
    latest = sorted((role.progress[voter].heard_at for voter in state.others), reverse=True)
    # A leader that is no longer a voter needs a majority of the others.
    needed = majority_count(len(state.voters)) - (1 if state.node_id in state.voters else 0)
    return latest[needed - 1] + state.timing.check_quorum_timeout if needed else float("inf")


def next_deadline(state: State, role: Leader) -> float:
    waits = [until for _, until in role.parked.values()]
    return min([quorum_deadline(state, role), role.begin_at if state.others else float("inf"), *waits])


def _begin_interval(state: State) -> float:
    return state.timing.fetch_timeout / 2


def _announce(state: State, role: Leader, voters: Collection[NodeId], now: float) -> None:
    role.begin_at = now + _begin_interval(state)
    for voter in voters:
        state.send(voter, BeginQuorumEpochRequest(epoch=state.epoch))


def handle_fetch(state: State, source: NodeId, request: FetchRequest, now: float) -> None:
    role = state.role
    error = FetchError.NONE
    if request.epoch < state.epoch:
        error = FetchError.FENCED_LEADER_EPOCH
    elif request.epoch > state.epoch:
        error = FetchError.UNKNOWN_LEADER_EPOCH
    if error is not FetchError.NONE or not isinstance(role, Leader):
        _refuse(state, source, request, FetchError.NOT_LEADER if error is FetchError.NONE else error)
        return
    _progress(role, source, now).heard_at = now
    log = state.log
    if request.fetch_offset < log.start_offset:
        _answer_snapshot(state, source, request)
        return
    diverging = log.divergence(offset=request.fetch_offset, epoch=request.last_fetched_epoch)
    if diverging is not None and diverging.end_offset < log.start_offset:
        _answer_snapshot(state, source, request)
    elif diverging is not None:
        response = FetchResponse(
            epoch=state.epoch,
            leader=state.node_id,
            request_id=request.request_id,
            high_watermark=state.high_watermark,
            diverging=diverging,
        )
        state.send(source, response)
    else:
        _count(state, role, source, request, now)


def _count(state: State, role: Leader, source: NodeId, request: FetchRequest, now: float) -> None:
    """Record the progress of a fetcher whose log is a prefix of this one; answer now or when there is new data."""
    role.parked[source] = (request, now + state.timing.fetch_wait)
    progress = _progress(role, source, now)
    _note_progress(state, progress, request, now)
    if request.fetch_offset >= state.log.end_offset:
        progress.caught_up_at = now
    if source in state.voters:
        advance(state)
    has_news = request.fetch_offset < state.log.end_offset or request.high_watermark < _known_high_watermark(
        state, role
    )
    if has_news and source in role.parked:
        _answer(state, role, source, request)


def _progress(role: Leader, node: NodeId, now: float) -> FollowerProgress:
    progress = role.progress.get(node)
    if progress is None:
        progress = role.progress[node] = FollowerProgress(end=Offset(0), heard_at=now)
    return progress


def may_change_voters(state: State, role: Leader) -> bool:
    """Return whether no change of voters is pending and a record of this epoch is committed (KIP-853)."""
    return state.high_watermark > max(role.epoch_start, state.history.changed_at)


def change_voters(state: State, role: Leader, change: ChangeVoters, now: float) -> None:
    assert may_change_voters(state, role), "another change of voters is not committed yet"
    assert len(change.voters ^ state.voters) <= 1, "a change may add or remove only one voter"
    end = state.log.end_offset
    last = Offset(end + change.record_count - 1)
    state.append(
        Batch(base_offset=end, last_offset=last, epoch=state.epoch, payload=change.payload, voters=change.voters)
    )
    for voter in state.others:
        _progress(role, voter, now)
    _announce(state, role, state.others, now)
    answer_parked(state)


def _note_progress(state: State, progress: FollowerProgress, request: FetchRequest, now: float) -> None:
    if progress.disk is None:
        progress.disk = request.disk
    elif progress.disk != request.disk:
        # A voter that has lost its disk no longer has what it confirmed. Its progress is ignored until no fetch
        # from before the loss can be in flight.
        progress.disk, progress.end = request.disk, Offset(0)
        progress.untrusted_until = now + state.timing.check_quorum_timeout
    if now >= progress.untrusted_until:
        progress.end = max(progress.end, request.fetch_offset)


def advance(state: State) -> None:
    """Advance the high watermark to what a majority holds durably, if that includes a record of this epoch."""
    role = state.role
    if not isinstance(role, Leader):
        return
    ends = [role.progress[voter].end for voter in state.others]
    if state.node_id in state.voters:
        ends.append(state.log.durable_offset)
    held = held_by_majority(ends)
    # A leader commits no more than the majority holds, and no more than is durable on its own
    # disk, so that it can read it after a crash.
    held = min(held, state.log.durable_offset)
    if held > role.epoch_start and state.advance_high_watermark(held):
        answer_parked(state)


def leave_if_removed(state: State, role: Leader, now: float) -> None:
    """Resign when the removal of this leader from the voters is committed."""
    if state.node_id not in state.voters and state.high_watermark > state.history.changed_at:
        resign(state, role, now)


def answer_parked(state: State) -> None:
    """Answer every waiting fetch with the new records or high watermark."""
    role = state.role
    if isinstance(role, Leader):
        for voter, (request, _) in list(role.parked.items()):
            _answer(state, role, voter, request)


def _answer(state: State, role: Leader, voter: NodeId, request: FetchRequest) -> None:
    del role.parked[voter]
    response = FetchResponse(
        epoch=state.epoch,
        leader=state.node_id,
        request_id=request.request_id,
        high_watermark=_known_high_watermark(state, role),
    )
    state.send(voter, response, read_from=request.fetch_offset)


def _known_high_watermark(state: State, role: Leader) -> Offset:
    """Return the high watermark, -1 until a record of this epoch is committed.

    Before that a leader may know only the end of its snapshot. A starting node would take that for the
    current state, and act on outdated metadata.
    """
    return state.high_watermark if state.high_watermark > role.epoch_start else Offset(-1)


def _answer_snapshot(state: State, source: NodeId, request: FetchRequest) -> None:
    response = FetchResponse(
        epoch=state.epoch,
        leader=state.node_id,
        request_id=request.request_id,
        high_watermark=state.high_watermark,
        snapshot=state.log.snapshot,
    )
    state.send(source, response)


def _refuse(state: State, source: NodeId, request: FetchRequest, error: FetchError) -> None:
    response = FetchResponse(
        epoch=state.epoch,
        leader=state.advertised_leader,
        request_id=request.request_id,
        error=error,
        high_watermark=state.high_watermark,
    )
    state.send(source, response)
