"""Elections: standing for one, and answering those who stand.

A voter first asks at its present epoch whether it could win (pre-vote, KIP-996), so that
one that was merely cut off does not depose a working leader. Goes to `leading` when a
majority grants. Grants one vote per epoch, and only to a log at least as long as its own.
A voter that began blank may have confirmed more than it can know: it helps only a log as blank as its own
was, which is how a cluster is born, until it holds all that a leader has committed.
"""

from dataclasses import replace

from penstock.model.ids import LeaderEpoch, NodeId
from penstock.raft import leading
from penstock.raft.events import ElectionState
from penstock.raft.majority import is_majority, majority_count
from penstock.raft.messages import VoteRequest, VoteResponse
from penstock.raft.roles import Candidate, Follower, Leader, Prospective, Unattached
from penstock.raft.state import State


def stand(state: State, now: float) -> None:
    """Ask whether this voter could win. A sole voter wins at once, here and now."""
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
            pause = state.gone_deadline(now) if role.lacks_voters else state.backoff_deadline(now)
            state.enter(Unattached(deadline=pause), state.election)
    elif now >= role.retry_at:
        role.retry_at = now + state.timing.request_timeout
        _ask(state, tuple(voter for voter in state.others if voter not in role.granted | role.refused))


def hear_request(state: State, source: NodeId, request: VoteRequest, now: float) -> None:
    granted = request.epoch == state.epoch and _grants(state, source, request)
    if granted and not request.pre_vote:
        # Whoever helps a cluster to be born has nothing to remember of an earlier one.
        state.remember(replace(state.election, voted=source, blank=False))
        if isinstance(state.role, Unattached):
            state.role.deadline = state.election_deadline(now)
    state.send(
        source,
        VoteResponse(epoch=state.epoch, leader=state.leader_to_name, granted=granted, pre_vote=request.pre_vote),
    )


def _grants(state: State, source: NodeId, request: VoteRequest) -> bool:
    if (request.last_epoch, request.end_offset) < (state.log.last_epoch, state.log.end_offset):
        return False
    if state.election.blank and request.end_offset > 0:
        return False
    if request.pre_vote:
        # Whoever hears from a leader does not help to depose it.
        return not isinstance(state.role, Leader) and not (isinstance(state.role, Follower) and state.role.has_fetched)
    if state.election.leader is not None:
        return False
    return state.election.voted in (None, source)


def hear_response(state: State, source: NodeId, response: VoteResponse, now: float) -> None:
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
        # A pause of random length lets another go first.
        role.deadline = min(role.deadline, state.backoff_deadline(now))


def _is_lost(state: State, role: Prospective | Candidate) -> bool:
    """Whether too many have refused for a majority to be left."""
    return len(role.refused & state.voters) > len(state.voters) - majority_count(len(state.voters))


def hear_lost(state: State, role: Prospective | Candidate, node: NodeId, now: float) -> None:
    """A voter whose process is gone will not answer: without it the election may be lost already."""
    if node not in role.granted:
        role.refused.add(node)
        if _is_lost(state, role):
            role.deadline = min(role.deadline, state.gone_deadline(now))
            if isinstance(role, Prospective):
                role.lacks_voters = True
