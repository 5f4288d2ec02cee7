"""The divergence of logs."""

from penstock.model.ids import LeaderEpoch, Offset
from penstock.raft.messages import EpochEnd
from penstock.raft.shape import NO_RECORDS, LogShape


def shape(*epochs: int, snapshot: tuple[int, int] | None = None) -> LogShape:
    """Return a log with one record of each epoch; the snapshot is (epoch, end offset)."""
    log = LogShape(snapshot=NO_RECORDS if snapshot is None else end(*snapshot))
    for epoch in epochs:
        log.append(last_offset=log.end_offset, epoch=LeaderEpoch(epoch))
    log.durable_offset = log.end_offset
    return log


def end(epoch: int, offset: int) -> EpochEnd:
    return EpochEnd(epoch=LeaderEpoch(epoch), end_offset=Offset(offset))


def diverging(log: LogShape, offset: int, epoch: int) -> EpochEnd | None:
    return log.divergence(offset=Offset(offset), epoch=LeaderEpoch(epoch))


def test_a_prefix_does_not_diverge() -> None:
    log = shape(1, 1, 3)
    assert diverging(log, 0, 0) is None
    assert diverging(log, 1, 1) is None
    assert diverging(log, 2, 1) is None
    assert diverging(log, 3, 3) is None


def test_a_longer_epoch_diverges_where_the_own_epoch_ends() -> None:
    assert diverging(shape(1, 1, 3), 5, 1) == end(1, 2)


def test_an_unknown_epoch_diverges_at_the_previous_one() -> None:
    assert diverging(shape(1, 1, 3), 4, 2) == end(1, 2)


def test_a_log_older_than_the_snapshot_needs_the_snapshot() -> None:
    log = shape(4, snapshot=(3, 10))
    answer = diverging(log, 10, 2)
    assert answer is not None and answer.end_offset < log.start_offset
    assert diverging(log, 10, 3) is None
    assert diverging(log, 11, 4) is None


def test_the_common_end_is_the_smaller_end_of_the_epoch() -> None:
    follower = shape(1, 1, 1, 2)
    assert follower.common_end(end(1, 2)) == 2
    assert follower.common_end(end(1, 9)) == 3
    assert follower.common_end(end(0, 0)) == 0


def test_truncation_removes_epochs_and_durability_after_the_offset() -> None:
    log = shape(1, 2, 2, 3)
    log.truncate_to(Offset(2))
    assert (log.end_offset, log.last_epoch, log.durable_offset) == (2, 2, 2)
    log.truncate_to(Offset(1))
    assert log.last_epoch == 1


def test_dropping_a_prefix_keeps_the_epochs_after_it() -> None:
    log = shape(1, 1, 2, 2, 5)
    log.start_at(end(2, 3))
    assert (log.start_offset, log.end_offset, log.last_epoch) == (3, 5, 5)
    assert diverging(log, 4, 2) is None
    assert diverging(log, 3, 2) is None
    log.start_at(end(5, 5))
    assert log.last_epoch == 5
    assert diverging(log, 5, 5) is None
