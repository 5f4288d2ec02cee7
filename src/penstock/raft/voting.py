"""Elections: standing for election, and granting votes.

A voter first asks for pre-votes in its current epoch (KIP-996), so that one that was merely
partitioned off does not depose a working leader. Calls `leading` when a majority has
granted. Grants one vote per epoch, and only to a log at least as long as its own.
A blank voter may have confirmed records that it has lost: it grants votes only to a log as empty as its own
was, as in a new cluster, until it has everything that a leader has committed.
"""

from dataclasses import replace

from penstock.model.ids import LeaderEpoch, NodeId
from penstock.raft import following, leading
from penstock.raft.events import ElectionState
from penstock.raft.majority import is_majority, majority_count
from penstock.raft.messages import VoteRequest, VoteResponse
from penstock.raft.roles import Candidate, Follower, Leader, Prospective, Unattached
from penstock.raft.state import State


def stand(state: State, now: float) -> None:
    """Ask for pre-votes. A sole voter becomes leader in the same step."""
    role = Prospective(
        deadline=state.election_deadline(now), retry_at=now + state.timing.request_timeout, granted={state.node_id}
    )
    state.enter(role, state.election)
    if is_majority(role.granted, state.voters):
        _take_new_epoch(state, now)
    else:
        _ask(state, state.others)


def _take_new_epoch(state: State, now: float) -> None:
    epoch = LeaderEpoch(state.epoch + 1)
    role = Candidate(
        deadline=state.election_deadline(now), retry_at=now + state.timing.request_timeout, granted={state.node_id}
    )
    state.enter(role, ElectionState(epoch=epoch, voted=state.node_id, blank=state.election.blank))
    if is_majority(role.granted, state.voters):
        leading.lead(state, now, granting=role.granted)
    else:
        _ask(state, state.others)


def _ask(state: State, voters: tuple[NodeId, ...]) -> None:
    request = VoteRequest(
        epoch=state.epoch,
        last_epoch=state.log.last_epoch,
        end_offset=state.log.end_offset,
        pre_vote=isinstance(state.role, Prospective),
    )
    for voter in voters:
        state.send(voter, request)


def pass_time(state: State, role: Prospective | Candidate, now: float) -> None:
    if now >= role.deadline:
        if isinstance(role, Candidate):
            stand(state, now)
        else:
            pause = state.lost_peer_deadline(now) if role.lacks_voters else state.backoff_deadline(now)
            state.enter(Unattached(deadline=pause), state.election)
            following.ask_last_leader(state)
    elif now >= role.retry_at:
        role.retry_at = now + state.timing.request_timeout
        _ask(state, tuple(voter for voter in state.others if voter not in role.granted | role.refused))


def handle_request(state: State, source: NodeId, request: VoteRequest, now: float) -> None:
    granted = request.epoch == state.epoch and _grants(state, source, request)
    if granted and not request.pre_vote:
        # A voter that takes part in the first election of a cluster has forgotten nothing.
        state.remember(replace(state.election, voted=source, blank=False))
        if isinstance(state.role, Unattached):
            state.role.deadline = state.election_deadline(now)
    state.send(
        source,
        VoteResponse(epoch=state.epoch, leader=state.advertised_leader, granted=granted, pre_vote=request.pre_vote),
    )


def _grants(state: State, source: NodeId, request: VoteRequest) -> bool:
    if (request.last_epoch, request.end_offset) < (state.log.last_epoch, state.log.end_offset):
        return False
    if state.election.blank and request.end_offset > 0:
        return False
    if request.pre_vote:
        # A voter that hears from a leader does not help to depose it.
        return not isinstance(state.role, Leader) and not (isinstance(state.role, Follower) and state.role.has_fetched)
    if state.election.leader is not None:
        return False
    return state.election.voted in (None, source)


def handle_response(state: State, source: NodeId, response: VoteResponse, now: float) -> None:
    role = state.role
    if not isinstance(role, Prospective | Candidate) or response.epoch != state.epoch:
        return
    if response.pre_vote != isinstance(role, Prospective):
        return
    (role.granted if response.granted else role.refused).add(source)
    if is_majority(role.granted, state.voters):
        if isinstance(role, Prospective):
            _take_new_epoch(state, now)
        else:
            leading.lead(state, now, granting=role.granted)
    elif _is_lost(state, role):
        # A random pause lets another voter stand first.
        role.deadline = min(role.deadline, state.backoff_deadline(now))


def _is_lost(state: State, role: Prospective | Candidate) -> bool:
    """Return whether too many voters have refused for a majority to remain."""
    return len(role.refused & state.voters) > len(state.voters) - majority_count(len(state.voters))


def handle_peer_lost(state: State, role: Prospective | Candidate, node: NodeId, now: float) -> None:
    """Count a voter whose process has exited as refusing, which may lose the election."""
    if node not in role.granted:
        role.refused.add(node)
        if _is_lost(state, role):
            role.deadline = min(role.deadline, state.lost_peer_deadline(now))
            if isinstance(role, Prospective):
                role.lacks_voters = True
