"""Single steps of a follower."""

import pytest

from penstock.model.ids import LeaderEpoch, NodeId, Offset
from penstock.raft.core import Core
from penstock.raft.events import FetchFailed, Heard, Received, Resign, SnapshotStatus, Started, Synced, TimePassed
from penstock.raft.messages import BeginQuorumEpochRequest, EpochEnd, FetchError, FetchRequest, FetchResponse
from penstock.raft.roles import Follower, FollowerProgress, Leader
from tests.unit.raft.test_election import core

SNAPSHOT = EpochEnd(epoch=LeaderEpoch(3), end_offset=Offset(50))


def follower() -> tuple[Core, Follower, FetchRequest]:
    """Return node 1, which follows node 2 in epoch 4, and the fetch in flight."""
    node = core(epoch=3, end=3)
    node.step(Started(), 0.0)
    effects = node.step(Received(NodeId(2), BeginQuorumEpochRequest(epoch=LeaderEpoch(4))), 0.0)
    (fetch,) = [send.message for send in effects.send if isinstance(send.message, FetchRequest)]
    assert isinstance(node.role, Follower)
    return node, node.role, fetch


def loading() -> tuple[Core, Follower]:
    node, role, fetch = follower()
    answer = FetchResponse(
        epoch=LeaderEpoch(4),
        leader=NodeId(2),
        request_id=fetch.request_id,
        error=FetchError.NONE,
        high_watermark=Offset(60),
        diverging=None,
        snapshot=SNAPSHOT,
        batches=(),
    )
    node.step(Received(NodeId(2), answer), 0.1)
    assert role.loading_snapshot == SNAPSHOT
    return node, role


def fetches(effects: object) -> int:
    return sum(isinstance(send.message, FetchRequest) for send in effects.send)  # type: ignore[attr-defined]


def test_a_failed_fetch_is_retried_soon() -> None:
    node, role, fetch = follower()
    before = role.retry_at
    node.step(FetchFailed(fetch.request_id + 1), 0.1)
    assert role.retry_at == before, "the failure of an older fetch must be ignored"
    node.step(FetchFailed(fetch.request_id), 0.1)
    assert 0.1 < role.retry_at < before
    assert fetches(node.step(TimePassed(), role.retry_at)) == 1


def test_a_leader_that_sends_its_snapshot_is_alive() -> None:
    node, role = loading()
    before = role.deadline
    node.step(SnapshotStatus(SNAPSHOT, is_available=True), 0.5)
    assert role.deadline > before
    assert role.loading_snapshot == SNAPSHOT


def test_a_snapshot_that_the_leader_has_deleted_is_abandoned_and_the_log_is_fetched() -> None:
    node, role = loading()
    effects = node.step(SnapshotStatus(SNAPSHOT, is_available=False), 0.5)
    assert role.loading_snapshot is None
    assert fetches(effects) == 1


@pytest.mark.parametrize("is_available", [True, False])
def test_the_status_of_another_snapshot_is_ignored(is_available: bool) -> None:
    node, role = loading()
    before = role.deadline
    other = EpochEnd(epoch=LeaderEpoch(3), end_offset=Offset(40))
    assert fetches(node.step(SnapshotStatus(other, is_available=is_available), 0.5)) == 0
    assert (role.deadline, role.loading_snapshot) == (before, SNAPSHOT)


def test_only_a_leader_resigns() -> None:
    node, role, _ = follower()
    effects = node.step(Resign(), 0.1)
    assert node.role is role
    assert not effects.send


def test_a_leader_records_that_a_follower_is_alive_and_ignores_unknown_nodes() -> None:
    node = core(voters=1, epoch=4, leader=1, voted=1, end=3)
    node.step(Started(), 0.0)
    node.step(Synced(Offset(4)), 0.0)
    assert isinstance(node.role, Leader)
    node.role.progress[NodeId(2)] = FollowerProgress(end=Offset(0), heard_at=0.0)
    node.step(Heard(NodeId(2)), 5.0)
    node.step(Heard(NodeId(9)), 5.0)
    assert node.role.progress[NodeId(2)].heard_at == 5.0
    assert NodeId(9) not in node.role.progress
    other, _, _ = follower()
    other.step(Heard(NodeId(3)), 5.0)
    assert isinstance(other.role, Follower)
