"""Single steps of a node that asks for votes."""

from penstock.model.ids import LeaderEpoch, NodeId
from penstock.raft.core import Core
from penstock.raft.events import Received, Started, TimePassed
from penstock.raft.messages import VoteRequest, VoteResponse
from penstock.raft.roles import Prospective
from penstock.raft.state import Timing
from tests.unit.raft.test_election import core, vote_request


def prospective() -> tuple[Core, Prospective, float]:
    """Return a voter whose election timeout has passed, and the time."""
    node = core(voters=4, timing=Timing(request_timeout=0.1))
    deadline = node.step(Started(), 0.0).deadline
    assert deadline is not None
    assert vote_requests(node.step(TimePassed(), deadline)) == {2, 3, 4}
    assert isinstance(node.role, Prospective)
    return node, node.role, deadline


def vote_requests(effects: object) -> set[int]:
    return {send.to for send in effects.send if isinstance(send.message, VoteRequest)}  # type: ignore[attr-defined]


def test_only_voters_that_have_not_answered_are_asked_again() -> None:
    node, role, now = prospective()
    answer = VoteResponse(epoch=LeaderEpoch(0), leader=None, granted=True, pre_vote=True)
    node.step(Received(NodeId(2), answer), now)
    again = role.retry_at
    assert now < again < role.deadline
    assert vote_requests(node.step(TimePassed(), again - 0.001)) == set()
    assert vote_requests(node.step(TimePassed(), again)) == {3, 4}
    assert role.retry_at > again


def test_a_message_from_the_node_itself_is_ignored() -> None:
    node, role, now = prospective()
    effects = node.step(Received(NodeId(1), vote_request(9)), now)
    assert node.role is role
    assert (node.epoch, effects.send, effects.persist) == (0, effects.send[:0], None)
