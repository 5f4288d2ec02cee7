from penstock.model.ids import NodeId
from penstock.replication.isr import (
    FollowerProgress,
    Leadership,
    advance_high_watermark,
    effective_min_isr,
    most_caught_up,
)

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
LAG_S = 30.0


def leadership(isr: tuple[NodeId, ...] = (ONE, TWO, THREE), *, epoch_start: int = 0) -> Leadership:
    return Leadership(
        ONE, epoch=5, epoch_start=epoch_start, partition_epoch=7, replicas=(ONE, TWO, THREE), isr=isr, now=0.0
    )


def fetch(
    lead: Leadership, node_id: NodeId, offset: int, *, end: int, now: float, broker_epoch: int = 9
) -> FollowerProgress:
    progress = lead.followers[node_id]
    progress.fetched(offset, 0, broker_epoch, leader_end=end, now=now)
    return progress


def expand_isr(
    lead: Leadership, progress: FollowerProgress, *, mark: int, now: float = 1.0, allowed: bool = True
) -> object:
    return lead.expand_isr(progress, mark=mark, now=now, lag_s_max=LAG_S, allowed=allowed)


def bound(lead: Leadership, durable_offset: int) -> int:
    return advance_high_watermark(-1, durable_offset=durable_offset, counted=lead.counted)


def at(offset: int) -> FollowerProgress:
    progress = FollowerProgress(TWO)
    progress.offset = offset
    return progress


def test_the_high_watermark_follows_the_slowest_in_sync_replica() -> None:
    assert advance_high_watermark(2, durable_offset=9, counted=[at(8), at(7)]) == 7
    assert advance_high_watermark(2, durable_offset=6, counted=[at(8), at(7)]) == 6


def test_the_high_watermark_does_not_move_back_when_a_rejoined_replica_is_behind() -> None:
    assert advance_high_watermark(7, durable_offset=9, counted=[at(4)]) == 7


def test_the_effective_min_isr_is_not_larger_than_the_replica_count() -> None:
    assert effective_min_isr(2, replica_count=1) == 1
    assert effective_min_isr(2, replica_count=3) == 2


def test_the_high_watermark_of_a_single_replica_is_its_durable_offset() -> None:
    lead = Leadership(ONE, epoch=0, epoch_start=0, partition_epoch=0, replicas=(ONE,), isr=(ONE,), now=0.0)
    assert bound(lead, 12) == 12


def test_a_member_that_has_not_fetched_yet_holds_the_high_watermark_back() -> None:
    lead = leadership()
    fetch(lead, TWO, 10, end=10, now=1.0)
    assert bound(lead, 10) == -1
    fetch(lead, THREE, 8, end=10, now=1.0)
    assert bound(lead, 10) == 8
    assert bound(lead, 5) == 5


def test_a_follower_joins_at_the_high_watermark_and_at_the_start_of_the_epoch() -> None:
    lead = leadership((ONE, TWO), epoch_start=6)
    progress = fetch(lead, THREE, 5, end=10, now=1.0)
    assert expand_isr(lead, progress, mark=5) is None
    progress = fetch(lead, THREE, 6, end=10, now=1.0)
    assert expand_isr(lead, progress, mark=7) is None
    proposal = expand_isr(lead, progress, mark=6)
    assert proposal == (5, 7, (ONE, TWO, THREE), (-1, -1, 9))


def test_a_follower_that_is_not_allowed_in_the_isr_never_joins() -> None:
    lead = leadership((ONE, TWO))
    progress = fetch(lead, THREE, 10, end=10, now=1.0)
    assert expand_isr(lead, progress, mark=5, allowed=False) is None
    assert not progress.joining


def test_the_high_watermark_waits_for_members_of_the_committed_and_of_the_proposed_isr() -> None:
    lead = leadership((ONE, TWO))
    fetch(lead, TWO, 10, end=10, now=1.0)
    progress = fetch(lead, THREE, 4, end=10, now=1.0)
    assert bound(lead, 10) == 10
    assert expand_isr(lead, progress, mark=4) is not None
    assert bound(lead, 10) == 4
    assert lead.commit(partition_epoch=8, replicas=(ONE, TWO, THREE), isr=(ONE, TWO, THREE))
    assert lead.shrink_isr(leader_end=10, now=40.0, lag_s_max=LAG_S) is not None
    assert bound(lead, 10) == 4
    assert lead.commit(partition_epoch=9, replicas=(ONE, TWO, THREE), isr=(ONE, TWO))
    assert bound(lead, 10) == 10


def test_one_proposal_at_a_time() -> None:
    lead = leadership((ONE,))
    assert expand_isr(lead, fetch(lead, TWO, 5, end=5, now=1.0), mark=5) is not None
    assert expand_isr(lead, fetch(lead, THREE, 5, end=5, now=1.0), mark=5) is None
    assert lead.shrink_isr(leader_end=9, now=100.0, lag_s_max=LAG_S) is None


def test_the_high_watermark_does_not_wait_for_a_withdrawn_proposal() -> None:
    lead = leadership((ONE, TWO))
    fetch(lead, TWO, 9, end=9, now=1.0)
    fetch(lead, THREE, 3, end=9, now=1.0)
    proposal = lead.expand_isr(lead.followers[THREE], mark=3, now=100.0, lag_s_max=LAG_S, allowed=True)
    assert proposal is not None
    assert bound(lead, 9) == 3
    lead.withdraw(proposal)
    assert bound(lead, 9) == 9


def test_an_older_state_changes_nothing() -> None:
    lead = leadership()
    assert not lead.commit(partition_epoch=7, replicas=(ONE,), isr=(ONE,))
    assert lead.isr == (ONE, TWO, THREE)


def test_a_follower_with_everything_that_existed_at_its_last_fetch_was_caught_up_then() -> None:
    lead = leadership()
    fetch(lead, TWO, 0, end=10, now=10.0)
    progress = fetch(lead, TWO, 10, end=20, now=20.0)
    assert progress.caught_up_at == 10.0
    progress = fetch(lead, TWO, 15, end=30, now=30.0)
    assert progress.caught_up_at == 10.0


def test_a_member_that_lags_for_too_long_leaves_the_isr() -> None:
    lead = leadership()
    fetch(lead, TWO, 10, end=10, now=20.0)
    assert lead.shrink_isr(leader_end=12, now=30.0, lag_s_max=LAG_S) is None
    proposal = lead.shrink_isr(leader_end=12, now=31.0, lag_s_max=LAG_S)
    assert proposal is not None
    assert proposal.isr == (ONE, TWO)


def test_an_idle_partition_keeps_its_members() -> None:
    lead = leadership()
    for node_id in (TWO, THREE):
        fetch(lead, node_id, 10, end=10, now=1.0)
    assert lead.shrink_isr(leader_end=10, now=1000.0, lag_s_max=LAG_S) is None
    lead.followers[TWO].session_fetched(leader_end=10, last_fetch_at=1000.0)
    proposal = lead.shrink_isr(leader_end=11, now=1001.0, lag_s_max=LAG_S)
    assert proposal is not None
    assert proposal.isr == (ONE, TWO)


def test_the_high_watermark_waits_for_followers_close_behind_and_not_for_those_far_behind() -> None:
    lead = leadership((ONE, TWO))
    fetch(lead, TWO, 20, end=20, now=1.0)
    close = fetch(lead, THREE, 15, end=15, now=1.0)
    expand_isr(lead, close, mark=16)
    assert bound(lead, 20) == 15
    expand_isr(lead, close, mark=16, now=40.0)
    assert bound(lead, 20) == 20


def test_the_next_epoch_of_the_same_leader_keeps_the_followers_progress() -> None:
    lead = leadership()
    for node_id in (TWO, THREE):
        fetch(lead, node_id, 10, end=10, now=1.0)
    lead.next_epoch(epoch=6, epoch_start=10)
    assert bound(lead, 10) == 10


def test_the_low_watermark_is_the_lowest_log_start_of_the_live_replicas() -> None:
    lead = leadership()
    lead.followers[TWO].fetched(10, 4, 9, leader_end=10, now=1.0)
    lead.followers[THREE].fetched(10, 2, 9, leader_end=10, now=1.0)
    assert lead.low_watermark(5, is_alive=lambda node_id: True) == 2
    assert lead.low_watermark(5, is_alive=lambda node_id: node_id == TWO) == 4


def test_a_consumer_is_sent_to_the_replica_with_the_highest_end() -> None:
    lead = leadership()
    fetch(lead, TWO, 10, end=12, now=1.0)
    fetch(lead, THREE, 12, end=12, now=1.0)
    assert most_caught_up(lead.followers, among=(TWO, THREE), offset=5) == THREE
    assert most_caught_up(lead.followers, among=(TWO,), offset=11) is None
    assert most_caught_up(lead.followers, among=(ONE,), offset=5) is None
