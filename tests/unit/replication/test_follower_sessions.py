"""The fetch sessions of followers: which requests belong to them, and when parked fetches are answered."""

from typing import Any
from unittest.mock import MagicMock

import pytest

from penstock.model.errors import FetchSessionIdNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch
from penstock.replication.fetch_session import EPOCH_MAX
from penstock.replication.follower_sessions import FollowerSession, FollowerSessions, Wakeups
from penstock.wire.hot.fetch import FetchRequest
from tests.unit.coordinator.fakes import FakeClock
from tests.unit.replication.test_fetch_session import asked


def request(
    session_id: int = 0, epoch: int = 0, *, broker_epoch: int = 7, forgotten: tuple[str, ...] = ()
) -> FetchRequest:
    made = FetchRequest()
    made.session_id, made.session_epoch = session_id, epoch
    made.replica_id, made.replica_epoch = 2, broker_epoch
    made.partitions = [asked("a", 0)] if epoch == 0 else []
    made.forgotten = [(topic.encode(), 0) for topic in forgotten]
    return made


class Leader:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.wakeups = Wakeups(self.clock)
        self.sessions = FollowerSessions(self.wakeups)

    def find(self, made: FetchRequest, *, by_id: bool = True) -> FollowerSession:
        return self.sessions.find(made, "broker-2-fetcher-0", by_id=by_id, now=self.clock.now)


def test_requests_that_do_not_continue_a_session_are_rejected() -> None:
    leader = Leader()
    session = leader.find(request())
    for made, error in (
        (request(session.id, 1, broker_epoch=8), FetchSessionIdNotFound),
        (request(session.id + 1, 1), FetchSessionIdNotFound),
        (request(session.id, 2), InvalidFetchSessionEpoch),
    ):
        with pytest.raises(error):
            leader.find(made)
    with pytest.raises(FetchSessionTopicIdError):
        leader.find(request(session.id, 1), by_id=False)
    assert leader.find(request(session.id, 1)) is session


def test_the_epoch_after_the_largest_is_one() -> None:
    leader = Leader()
    session = leader.find(request())
    session.epoch = EPOCH_MAX
    assert leader.find(request(session.id, EPOCH_MAX)) is session
    assert session.epoch == 1


def test_forgotten_partitions_leave_the_session_and_unknown_ones_are_ignored() -> None:
    leader = Leader()
    session = leader.find(request())
    partition: Any = MagicMock()
    entry = session.update(asked("a", 0))
    entry.attach(partition)
    session.ready[entry] = None
    leader.find(request(session.id, 1, forgotten=("a", "unknown")))
    assert not session.partitions and not session.ready
    partition.remove_follower.assert_called_once_with(entry)


def test_records_without_a_parked_fetch_are_read_by_the_next_one() -> None:
    leader = Leader()
    session = leader.find(request())
    entry = session.update(asked("a", 0))
    entry.wrote(100)
    assert list(session.ready) == [entry]
    assert not leader.clock.timers


def test_a_parked_fetch_is_answered_when_enough_bytes_were_written() -> None:
    leader = Leader()
    session = leader.find(request())
    entry = session.update(asked("a", 0))
    waiting: Any = MagicMock()
    session.park(waiting, missing=150)
    entry.wrote(100)
    leader.clock.advance(0)
    waiting.look_again.assert_not_called()
    entry.wrote(50)
    entry.wrote(50)
    leader.clock.advance(0)
    waiting.look_again.assert_called_once_with()


def test_the_deadline_of_a_parked_fetch_may_move() -> None:
    leader = Leader()
    session = leader.find(request())
    waiting: Any = MagicMock()
    session.park(waiting, missing=1)
    session.expire_at(leader.clock.now + 1)
    session.expire_at(leader.clock.now + 3)
    leader.clock.advance(2)
    waiting.finish.assert_not_called()
    leader.clock.advance(1)
    waiting.finish.assert_called_once_with()


def test_a_deadline_after_the_answer_does_nothing() -> None:
    leader = Leader()
    session = leader.find(request())
    waiting: Any = MagicMock()
    session.park(waiting, missing=1)
    session.expire_at(leader.clock.now + 1)
    session.waiting = None
    leader.clock.advance(2)
    waiting.finish.assert_not_called()


def test_a_stopped_leader_answers_no_followers() -> None:
    leader = Leader()
    session = leader.find(request())
    waiting: Any = MagicMock()
    session.park(waiting, missing=1)
    session.wake()
    leader.wakeups.stop()
    leader.wakeups.stop()
    leader.clock.advance(1)
    waiting.look_again.assert_not_called()
