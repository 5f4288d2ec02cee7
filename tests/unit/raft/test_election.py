"""Single steps of elections."""

from random import Random

from penstock.model.ids import LeaderEpoch, NodeId, Offset
from penstock.raft.core import Core
from penstock.raft.events import Appended, ElectionState, PeerLost, Received, Started, Synced, TimePassed
from penstock.raft.messages import (
    Batch,
    BeginQuorumEpochRequest,
    FetchError,
    FetchRequest,
    FetchResponse,
    LeaderChange,
    VoteRequest,
    VoteResponse,
)
from penstock.raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from penstock.raft.shape import LogShape
from penstock.raft.state import Timing


def core(
    *,
    voters: int = 3,
    epoch: int = 0,
    leader: int | None = None,
    voted: int | None = None,
    end: int = 0,
    timing: Timing | None = None,
) -> Core:
    log = LogShape()
    for offset in range(end):
        log.append(last_offset=Offset(offset), epoch=LeaderEpoch(epoch))
    log.durable_offset = log.end_offset
    election = ElectionState(
        epoch=LeaderEpoch(epoch),
        leader=None if leader is None else NodeId(leader),
        voted=None if voted is None else NodeId(voted),
    )
    return Core(
        node_id=NodeId(1),
        voters=frozenset(NodeId(index) for index in range(1, voters + 1)),
        election=election,
        log=log,
        random=Random(7),
        timing=timing,
    )


def is_in(voter: Core, role: type[Role]) -> bool:
    return isinstance(voter.role, role)


def vote_request(epoch: int, *, last_epoch: int = 0, end: int = 0, pre_vote: bool = False) -> VoteRequest:
    return VoteRequest(
        epoch=LeaderEpoch(epoch), last_epoch=LeaderEpoch(last_epoch), end_offset=Offset(end), pre_vote=pre_vote
    )


def test_a_sole_voter_leads_a_new_epoch_after_its_start() -> None:
    alone = core(voters=1, epoch=4, leader=1, voted=1, end=3)
    effects = alone.step(Started(), 0.0)
    assert is_in(alone, Leader)
    assert effects.persist == ElectionState(epoch=LeaderEpoch(5), leader=NodeId(1), voted=NodeId(1))
    (batch,) = effects.append
    assert (batch.base_offset, batch.epoch) == (3, 5)
    assert batch.payload == LeaderChange(leader=NodeId(1), voters=(NodeId(1),), granting_voters=(NodeId(1),))
    assert effects.high_watermark is None and effects.deadline is None and not effects.send


def test_a_sole_voter_commits_nothing_before_it_is_durable() -> None:
    alone = core(voters=1)
    alone.step(Started(), 0.0)
    assert alone.step(Appended(Offset(1)), 0.0).high_watermark is None
    assert alone.step(Synced(Offset(1)), 0.0).high_watermark == 1
    assert alone.step(Synced(Offset(2)), 0.0).high_watermark == 2


def test_a_voter_asks_for_pre_votes_before_it_takes_a_new_epoch() -> None:
    voter = core(epoch=2)
    deadline = voter.step(Started(), 0.0).deadline
    assert is_in(voter, Unattached) and deadline is not None
    effects = voter.step(TimePassed(), deadline)
    assert is_in(voter, Prospective)
    assert effects.persist is None
    assert {send.to for send in effects.send} == {2, 3}
    assert all(isinstance(send.message, VoteRequest) and send.message.pre_vote for send in effects.send)
    yes = VoteResponse(epoch=LeaderEpoch(2), leader=None, granted=True, pre_vote=True)
    effects = voter.step(Received(NodeId(2), yes), deadline)
    assert is_in(voter, Candidate)
    assert effects.persist == ElectionState(epoch=LeaderEpoch(3), voted=NodeId(1))
    yes = VoteResponse(epoch=LeaderEpoch(3), leader=None, granted=True, pre_vote=False)
    effects = voter.step(Received(NodeId(3), yes), deadline)
    assert is_in(voter, Leader)
    assert effects.persist == ElectionState(epoch=LeaderEpoch(3), leader=NodeId(1), voted=NodeId(1))
    assert {type(send.message) for send in effects.send} == {BeginQuorumEpochRequest}


def test_a_late_pre_vote_does_not_count_as_a_vote() -> None:
    voter = core(voters=5)
    deadline = voter.step(Started(), 0.0).deadline
    assert deadline is not None
    voter.step(TimePassed(), deadline)
    for source in (2, 3):
        yes = VoteResponse(epoch=LeaderEpoch(0), leader=None, granted=True, pre_vote=True)
        voter.step(Received(NodeId(source), yes), deadline)
    assert is_in(voter, Candidate)
    for source in (4, 5):
        late = VoteResponse(epoch=LeaderEpoch(1), leader=None, granted=True, pre_vote=True)
        voter.step(Received(NodeId(source), late), deadline)
    assert is_in(voter, Candidate)


def test_a_vote_is_persisted_with_its_response_and_given_once() -> None:
    voter = core()
    voter.step(Started(), 0.0)
    effects = voter.step(Received(NodeId(2), vote_request(1)), 0.0)
    assert effects.persist == ElectionState(epoch=LeaderEpoch(1), voted=NodeId(2))
    (send,) = effects.send
    assert isinstance(send.message, VoteResponse) and send.message.granted
    (send,) = voter.step(Received(NodeId(3), vote_request(1)), 0.0).send
    assert isinstance(send.message, VoteResponse) and not send.message.granted
    (send,) = voter.step(Received(NodeId(2), vote_request(1)), 0.0).send
    assert isinstance(send.message, VoteResponse) and send.message.granted, "the same candidate may ask again"


def test_a_vote_given_before_a_restart_still_binds() -> None:
    voter = core(epoch=1, voted=2)
    voter.step(Started(), 0.0)
    (send,) = voter.step(Received(NodeId(3), vote_request(1, last_epoch=1, end=9)), 0.0).send
    assert isinstance(send.message, VoteResponse) and not send.message.granted


def test_a_shorter_log_gets_no_vote() -> None:
    voter = core(epoch=3, end=5)
    voter.step(Started(), 0.0)
    for request in (vote_request(4, last_epoch=3, end=4), vote_request(5, last_epoch=2, end=50)):
        (send,) = voter.step(Received(NodeId(2), request), 0.0).send
        assert isinstance(send.message, VoteResponse) and not send.message.granted


def test_a_restarted_leader_does_not_lead_its_epoch_again() -> None:
    voter = core(epoch=3, leader=1, voted=1, end=5)
    voter.step(Started(), 0.0)
    assert isinstance(voter.role, Resigned)
    fetch = FetchRequest(
        epoch=LeaderEpoch(3),
        request_id=1,
        fetch_offset=Offset(5),
        last_fetched_epoch=LeaderEpoch(3),
        high_watermark=Offset(0),
    )
    (send,) = voter.step(Received(NodeId(2), fetch), 0.0).send
    assert isinstance(send.message, FetchResponse)
    assert send.message.error is FetchError.NOT_LEADER
    assert send.message.leader is None, "a resigned leader must not be named"


def test_a_follower_with_a_live_leader_grants_no_pre_vote() -> None:
    voter = core()
    voter.step(Started(), 0.0)
    effects = voter.step(Received(NodeId(2), BeginQuorumEpochRequest(epoch=LeaderEpoch(1))), 0.0)
    fetch = next(send.message for send in effects.send if isinstance(send.message, FetchRequest))
    answer = FetchResponse(
        epoch=LeaderEpoch(1), leader=NodeId(2), request_id=fetch.request_id, high_watermark=Offset(0)
    )
    voter.step(Received(NodeId(2), answer), 0.1)
    assert isinstance(voter.role, Follower) and voter.role.has_fetched
    (send,) = voter.step(Received(NodeId(3), vote_request(1, end=100, last_epoch=1, pre_vote=True)), 0.2).send
    assert isinstance(send.message, VoteResponse) and not send.message.granted


def test_a_vote_is_granted_to_a_node_that_is_not_a_known_voter() -> None:
    voter = core()
    voter.step(Started(), 0.0)
    effects = voter.step(Received(NodeId(9), vote_request(8)), 0.0)
    assert effects.persist == ElectionState(epoch=LeaderEpoch(8), voted=NodeId(9))


def test_the_vote_of_an_unknown_voter_is_not_counted() -> None:
    voter = core()
    deadline = voter.step(Started(), 0.0).deadline
    assert deadline is not None
    voter.step(TimePassed(), deadline)
    yes = VoteResponse(epoch=LeaderEpoch(0), leader=None, granted=True, pre_vote=True)
    voter.step(Received(NodeId(9), yes), deadline)
    assert is_in(voter, Prospective)


def follower(*, voters: int = 3) -> Core:
    """Return a voter that has fetched from node 2, the leader of epoch 1."""
    voter = core(voters=voters)
    voter.step(Started(), 0.0)
    (send,) = voter.step(Received(NodeId(2), BeginQuorumEpochRequest(epoch=LeaderEpoch(1))), 0.0).send[:1]
    assert isinstance(send.message, FetchRequest)
    answer = FetchResponse(
        epoch=LeaderEpoch(1), leader=NodeId(2), request_id=send.message.request_id, high_watermark=Offset(0)
    )
    voter.step(Received(NodeId(2), answer), 0.0)
    return voter


def test_a_follower_stands_soon_when_its_leaders_process_has_exited() -> None:
    voter = follower()
    before = voter.step(TimePassed(), 0.0).deadline
    after = voter.step(PeerLost(NodeId(2)), 0.0).deadline
    assert before is not None and before >= 1.0
    assert after is not None and after <= Timing().lost_peer_pause_max
    voter.step(TimePassed(), after)
    assert is_in(voter, Prospective)


def test_the_exit_of_another_process_does_not_affect_a_follower() -> None:
    voter = follower()
    before = voter.step(TimePassed(), 0.0).deadline
    assert voter.step(PeerLost(NodeId(3)), 0.0).deadline == before


def test_two_survivors_that_refuse_each_other_retry_soon_when_the_third_has_exited() -> None:
    voter = follower()
    deadline = voter.step(PeerLost(NodeId(2)), 0.0).deadline
    assert deadline is not None
    voter.step(TimePassed(), deadline)
    no = VoteResponse(epoch=LeaderEpoch(1), leader=NodeId(2), granted=False, pre_vote=True)
    voter.step(Received(NodeId(3), no), deadline)
    again = voter.step(PeerLost(NodeId(2)), deadline).deadline
    assert again is not None and again - deadline <= Timing().lost_peer_pause_max


def test_an_observer_asks_a_voter_for_the_leader_and_never_stands() -> None:
    observer = Core(
        node_id=NodeId(7),
        voters=frozenset({NodeId(1), NodeId(2)}),
        election=ElectionState(epoch=LeaderEpoch(0)),
        log=LogShape(),
        random=Random(7),
    )
    effects = observer.step(Started(), 0.0)
    (send,) = effects.send
    assert isinstance(send.message, FetchRequest)
    hint = FetchResponse(
        epoch=LeaderEpoch(4),
        leader=NodeId(2),
        request_id=send.message.request_id,
        error=FetchError.NOT_LEADER,
        high_watermark=Offset(0),
    )
    (fetch,) = observer.step(Received(NodeId(1), hint), 0.1).send
    assert fetch.to == 2 and isinstance(fetch.message, FetchRequest) and fetch.message.epoch == 4
    observer.step(TimePassed(), 100.0)
    assert is_in(observer, Unattached)


def blank(*, end: int = 0) -> Core:
    log = LogShape()
    for offset in range(end):
        log.append(last_offset=Offset(offset), epoch=LeaderEpoch(1))
    log.durable_offset = log.end_offset
    return Core(
        node_id=NodeId(1),
        voters=frozenset({NodeId(1), NodeId(2), NodeId(3)}),
        election=ElectionState(epoch=LeaderEpoch(1), blank=True),
        log=log,
        random=Random(7),
    )


def granted(voter: Core, request: VoteRequest) -> bool:
    (send,) = voter.step(Received(NodeId(2), request), 0.0).send
    assert isinstance(send.message, VoteResponse)
    return send.message.granted


def test_a_blank_voter_votes_only_for_an_empty_log() -> None:
    voter = blank()
    voter.step(Started(), 0.0)
    assert not granted(voter, vote_request(5, last_epoch=4, end=9))
    assert not granted(voter, vote_request(5, last_epoch=4, end=9, pre_vote=True))
    assert granted(voter, vote_request(6))
    assert granted(voter, vote_request(7, last_epoch=6, end=1)), "it took part in the first election"


def test_a_voter_that_is_being_refilled_does_not_stand() -> None:
    voter = blank(end=3)
    deadline = voter.step(Started(), 0.0).deadline
    assert deadline is not None
    voter.step(TimePassed(), deadline)
    assert is_in(voter, Unattached)


def test_a_blank_voter_is_a_full_one_when_it_has_all_committed_records() -> None:
    voter = blank()
    voter.step(Started(), 0.0)
    (send,) = voter.step(Received(NodeId(2), BeginQuorumEpochRequest(epoch=LeaderEpoch(3))), 0.0).send[:1]
    assert isinstance(send.message, FetchRequest)
    answer = FetchResponse(
        epoch=LeaderEpoch(3),
        leader=NodeId(2),
        request_id=send.message.request_id,
        high_watermark=Offset(2),
        batches=(
            Batch(base_offset=Offset(0), last_offset=Offset(0), epoch=LeaderEpoch(1)),
            Batch(base_offset=Offset(1), last_offset=Offset(1), epoch=LeaderEpoch(3)),
        ),
    )
    assert voter.step(Received(NodeId(2), answer), 0.0).persist is None
    effects = voter.step(Synced(Offset(2)), 0.0)
    assert effects.persist == ElectionState(epoch=LeaderEpoch(3), leader=NodeId(2))
