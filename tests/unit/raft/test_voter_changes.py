"""Voters that are added and removed while nodes are down: the quorum and the removed node must recover."""

import pytest

from penstock.model.ids import NodeId
from penstock.raft.events import ChangeVoters, Resign
from tests.unit.raft.raft_cluster import Node, RaftCluster


def led(voters: int, observers: int = 0) -> tuple[RaftCluster, Node]:
    """Return a cluster, and its leader."""
    world = RaftCluster(seed=1, voters=voters, observers=observers)
    world.run(5.0)
    world.propose()
    world.run(1.0)
    leader = world.leader()
    assert leader is not None
    return world, leader


def change(world: RaftCluster, voters: set[int]) -> None:
    leader = world.leader()
    assert leader is not None
    new = frozenset(map(NodeId, voters))
    world.step(leader, ChangeVoters(new, new))
    world.run(1.0)
    assert world.committed[-1][1] == new


def test_a_voter_that_was_removed_while_it_was_away_finds_a_leader_that_it_does_not_know_as_a_voter() -> None:
    world, _ = led(voters=3, observers=1)
    while (leader := world.leader()) is not None and leader.id == 3:
        world.step(leader, Resign())
        world.run(3.0)
    away, added = world.nodes[NodeId(3)], world.nodes[NodeId(4)]
    world.crash(away)
    change(world, {1, 2, 3, 4})
    change(world, {1, 2, 4})
    while world.leader() is not added:
        leader = world.leader()
        assert leader is not None
        world.step(leader, Resign())
        world.run(5.0)
    # The others name the leader, which cannot be reached for longer than the fetch timeout.
    world.cut = {frozenset({away.id, added.id})}
    world.restart(away)
    world.run(6.0)
    assert away.election.leader == added.id
    world.cut.clear()
    world.run(10.0)
    assert world.leader() is added, "a removed voter must not depose the leader"
    assert away.entries == world.committed


@pytest.mark.parametrize("voters", [2, 4])
def test_a_leader_that_exits_before_its_own_removal_is_committed_completes_it_after_a_restart(voters: int) -> None:
    world, leader = led(voters)
    others = [node for node in world.nodes.values() if node is not leader]
    world.cut = {frozenset({leader.id, other.id}) for other in others}
    remaining = frozenset(other.id for other in others)
    world.step(leader, ChangeVoters(remaining, remaining))
    world.run(0.1)
    world.crash(leader)
    assert len(leader.entries) > len(world.committed), "only the leader has the record of its removal"
    # Of four voters, one more is down: the others need the vote of the removed one, whose log is longer than theirs.
    for other in others[1:2]:
        world.crash(other)
    world.cut.clear()
    world.restart(leader)
    world.run(20.0)
    committed = len(world.committed)
    world.propose()
    world.run(2.0)
    assert len(world.committed) > committed
    now = world.leader()
    assert now is not None and now is not leader, "a leader that is no longer a voter must resign"
    assert now.core is not None and now.core.voters == remaining
