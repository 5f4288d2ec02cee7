"""The core among many voters in a seeded cluster with faults (invariants 24 to 27, 29)."""

from dataclasses import replace

import pytest

from penstock.model.ids import NodeId, Offset
from penstock.raft import leading, voting
from penstock.raft.events import Resign
from penstock.raft.majority import held_by_majority
from penstock.raft.messages import VoteRequest
from penstock.raft.roles import Leader
from penstock.raft.state import State
from tests.unit.raft.raft_cluster import RaftCluster, storm


@pytest.mark.parametrize("voters", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(12))
def test_random_faults_violate_no_invariant_and_logs_agree_after_healing(seed: int, voters: int) -> None:
    world = storm(seed=seed, voters=voters)
    assert world.leaders


@pytest.mark.parametrize(("voters", "observers"), [(2, 2), (3, 2), (4, 1), (5, 2)])
@pytest.mark.parametrize("seed", range(12))
def test_random_faults_with_lost_disks_observers_and_voter_changes(seed: int, voters: int, observers: int) -> None:
    assert storm(seed=seed, voters=voters, observers=observers).leaders


def test_the_rare_states_are_reached() -> None:
    worlds = [storm(seed=seed, voters=3, observers=2) for seed in range(24)]
    assert sum(world.wiped for world in worlds) >= 10
    assert sum(world.voter_changes for world in worlds) >= 20


def test_a_leader_whose_process_has_exited_is_replaced_within_a_second() -> None:
    for seed in range(20):
        world = RaftCluster(seed=seed, voters=3)
        world.run(5.0)
        leader = world.leader()
        assert leader is not None
        world.crash(leader)
        world.report_lost(leader)
        world.run(0.9)
        assert world.leader() is not None, seed


def test_the_same_seed_gives_the_same_run() -> None:
    first, second = storm(seed=3, voters=3), storm(seed=3, voters=3)
    assert first.committed == second.committed
    assert first.leaders == second.leaders


def test_a_quiet_cluster_keeps_its_leader() -> None:
    world = RaftCluster(seed=1, voters=5)
    world.run(5.0)
    leader = world.leader()
    world.run(60.0)
    assert leader is not None and world.leader() is leader
    assert len(world.leaders) == 1


def test_a_voter_that_was_partitioned_off_does_not_depose_the_leader_when_it_returns() -> None:
    world = RaftCluster(seed=1, voters=3)
    world.run(5.0)
    leader = world.leader()
    assert leader is not None
    lonely = next(node for node in world.nodes.values() if node is not leader)
    world.cut = {frozenset({lonely.id, other}) for other in world.nodes if other != lonely.id}
    world.run(30.0)
    world.cut.clear()
    world.run(10.0)
    assert world.leader() is leader
    assert len(world.leaders) == 1


def test_a_leader_without_a_majority_resigns_and_the_others_continue() -> None:
    world = RaftCluster(seed=2, voters=3)
    world.run(5.0)
    old = world.leader()
    assert old is not None and old.core is not None
    world.cut = {frozenset({old.id, other}) for other in world.nodes if other != old.id}
    world.run(10.0)
    new = world.leader()
    assert not old.core.is_leader
    assert new is not None and new is not old


def test_a_leader_that_steps_down_is_succeeded_by_a_voter_with_its_whole_log() -> None:
    world = RaftCluster(seed=4, voters=3)
    world.run(5.0)
    old = world.leader()
    assert old is not None
    for _ in range(5):
        world.propose()
    world.run(1.0)
    before = world.now
    world.step(old, Resign())
    while world.leader() is None:
        world.run(0.05)
    new = world.leader()
    assert new is not None and new is not old
    assert world.now - before < 1.0, "the election must not wait for a timeout"
    assert new.entries[: len(world.committed)] == world.committed


def test_a_voter_behind_the_start_of_the_log_loads_the_snapshot() -> None:
    world = RaftCluster(seed=5, voters=3)
    world.run(5.0)
    leader = world.leader()
    assert leader is not None
    behind = next(node for node in world.nodes.values() if node is not leader)
    world.crash(behind)
    for _ in range(30):
        world.propose()
        world.run(0.1)
    world.take_snapshot(leader)
    world.restart(behind)
    world.run(10.0)
    assert behind.snapshot == leader.snapshot
    assert behind.entries == world.committed


def _found(seeds: int = 60, observers: int = 0) -> bool:
    for seed in range(seeds):
        try:
            storm(seed=seed, voters=3, observers=observers)
        except AssertionError:
            return True
    return False


def test_the_checks_detect_votes_for_shorter_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    def grants(state: State, source: NodeId, request: VoteRequest) -> bool:
        return request.pre_vote or (state.election.leader is None and state.election.voted in (None, source))

    monkeypatch.setattr(voting, "_grants", grants)
    assert _found()


def test_the_checks_detect_a_vote_of_a_voter_that_lost_its_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    grants_vote = voting._grants

    def grants(state: State, source: NodeId, request: VoteRequest) -> bool:
        state.election = replace(state.election, blank=False)
        return grants_vote(state, source, request)

    monkeypatch.setattr(voting, "_grants", grants)
    assert _found(300, observers=2)


def test_the_checks_detect_a_high_watermark_that_a_minority_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leading, "held_by_majority", max)
    assert _found()


def test_the_checks_detect_a_high_watermark_that_is_not_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    def advance(state: State) -> None:
        if isinstance(state.role, Leader):
            state.log.durable_offset = state.log.end_offset
            held = held_by_majority([state.log.end_offset, *(state.role.progress[voter].end for voter in state.others)])
            if held > state.role.epoch_start:
                state.advance_high_watermark(Offset(held))

    monkeypatch.setattr(leading, "advance", advance)
    assert _found()
