"""Share sessions: epochs, partitions, connections."""

from typing import Any

import pytest

from penstock.model.errors import InvalidRequest, Refusal
from penstock.model.ids import TopicIdPartition
from penstock.shares.errors import InvalidShareSessionEpoch, ShareSessionLimitReached, ShareSessionNotFound
from penstock.shares.sessions import (
    EPOCH_MAX,
    FETCHED_MAX,
    PARTITION_COUNT_MAX,
    SessionKey,
    ShareSession,
    ShareSessions,
)

KEY = SessionKey("group", "member")
P = [TopicIdPartition(bytes(16), index) for index in range(4)]


def fetch(
    sessions: ShareSessions,
    epoch: int,
    *added: TopicIdPartition,
    key: SessionKey = KEY,
    forgotten: tuple[TopicIdPartition, ...] = (),
    acknowledges: bool = False,
    connection: str = "a",
) -> ShareSession:
    return sessions.fetch(
        key, epoch, added=added, forgotten=forgotten, has_acknowledgements=acknowledges, connection=connection
    )


def test_a_session_opens_continues_and_closes() -> None:
    sessions = ShareSessions(count_max=10)
    session = fetch(sessions, 0, P[0], P[1])
    assert fetch(sessions, 1, P[2], forgotten=(P[0],)) is session
    assert list(session.partitions) == [P[1], P[2]]
    assert sessions.acknowledge(KEY, 2, connection="a") is session
    assert fetch(sessions, 3) is session
    assert fetch(sessions, -1) is session
    assert sessions.close(session)
    with pytest.raises(ShareSessionNotFound):
        fetch(sessions, 4)


def test_the_epoch_must_be_the_next_one() -> None:
    sessions = ShareSessions(count_max=10)
    session = fetch(sessions, 0, P[0])
    for epoch in (2, 0x7FFFFFFF, -2):
        with pytest.raises(InvalidShareSessionEpoch):
            fetch(sessions, epoch)
        with pytest.raises(InvalidShareSessionEpoch):
            sessions.acknowledge(KEY, epoch, connection="a")
    session.epoch = EPOCH_MAX
    fetch(sessions, EPOCH_MAX)
    assert session.epoch == 1


@pytest.mark.parametrize("epoch", [1, -1])
def test_an_unknown_session_is_not_found(epoch: int) -> None:
    sessions = ShareSessions(count_max=10)
    with pytest.raises(ShareSessionNotFound):
        fetch(sessions, epoch)
    with pytest.raises(ShareSessionNotFound):
        sessions.acknowledge(KEY, epoch, connection="a")


def test_acknowledgements_cannot_open_a_session() -> None:
    sessions = ShareSessions(count_max=10)
    with pytest.raises(InvalidRequest):
        fetch(sessions, 0, P[0], acknowledges=True)
    with pytest.raises(InvalidShareSessionEpoch):
        sessions.acknowledge(KEY, 0, connection="a")
    assert len(sessions) == 0


def test_a_session_that_is_opened_again_starts_over() -> None:
    sessions = ShareSessions(count_max=1)
    first = fetch(sessions, 0, P[0])
    second = fetch(sessions, 0, P[1])
    assert second is not first and list(second.partitions) == [P[1]] and second.epoch == 1
    assert not sessions.close(first), "the new session is not closed with the old one"
    assert sessions.get(KEY) is second


def test_the_number_of_sessions_is_limited() -> None:
    sessions = ShareSessions(count_max=1)
    session = fetch(sessions, 0, P[0])
    with pytest.raises(ShareSessionLimitReached):
        fetch(sessions, 0, P[0], key=SessionKey("group", "other"))
    sessions.close(session)
    fetch(sessions, 0, P[0], key=SessionKey("group", "other"))


def test_a_lost_connection_closes_only_its_own_sessions() -> None:
    sessions = ShareSessions(count_max=10)
    mine = fetch(sessions, 0, P[0], connection="a")
    other = fetch(sessions, 0, P[0], key=SessionKey("group", "other"), connection="b")
    assert sessions.connection_lost("a") == [mine]
    assert sessions.connection_lost("a") == []
    assert sessions.get(other.key) is other


def test_the_old_connection_does_not_close_the_session_of_a_member_that_reconnected() -> None:
    sessions = ShareSessions(count_max=10)
    fetch(sessions, 0, P[0], connection="old")
    again = fetch(sessions, 0, P[0], connection="new")
    assert sessions.connection_lost("old") == []
    assert sessions.get(KEY) is again
    moved = fetch(sessions, 1, connection="newest")
    assert sessions.connection_lost("new") == []
    assert sessions.connection_lost("newest") == [moved]


def test_partitions_take_turns() -> None:
    sessions = ShareSessions(count_max=10)
    session = fetch(sessions, 0, *P[:3])
    orders = []
    for epoch in (1, 2, 3):
        fetch(sessions, epoch)
        orders.append(session.rotated()[0])
    assert set(orders) == set(P[:3])


def test_errors_have_kafkas_codes() -> None:
    errors: list[type[Refusal]] = [ShareSessionNotFound, InvalidShareSessionEpoch, ShareSessionLimitReached]
    assert [error.code for error in errors] == [122, 123, 133]


def test_a_partition_that_was_forgotten_can_be_added_again() -> None:
    sessions = ShareSessions(count_max=10)
    added = (P[0],)
    request: Any = {"has_acknowledgements": False, "connection": "a"}
    session = sessions.fetch(KEY, 0, added=added, forgotten=(), **request)
    sessions.fetch(KEY, 1, added=added, forgotten=(), **request)
    sessions.fetch(KEY, 2, added=(), forgotten=added, **request)
    assert list(session.partitions) == []
    sessions.fetch(KEY, 3, added=added, forgotten=(), **request)
    assert list(session.partitions) == [P[0]]


def test_the_partitions_of_a_large_session_take_turns() -> None:
    sessions = ShareSessions(count_max=10)
    many = [TopicIdPartition(bytes(16), index) for index in range(2 * FETCHED_MAX + 100)]
    session = fetch(sessions, 0, *many)
    fetched = []
    for epoch in range(1, 4):
        fetched.append(session.rotated())
        fetch(sessions, epoch)
    assert [len(each) for each in fetched] == [FETCHED_MAX] * 3
    assert {partition for each in fetched for partition in each} == set(many)
    assert (session.wait_ms(550), fetch(sessions, 0, P[0]).wait_ms(550)) == (250, 550)


def test_the_partitions_of_a_session_are_limited() -> None:
    sessions = ShareSessions(count_max=10)
    many = [TopicIdPartition(bytes(16), index) for index in range(PARTITION_COUNT_MAX)]
    session = fetch(sessions, 0, *many)
    fetch(sessions, 1, *many[:100])
    with pytest.raises(InvalidRequest):
        fetch(sessions, 2, TopicIdPartition(bytes(16), PARTITION_COUNT_MAX))
    assert len(session.partitions) == PARTITION_COUNT_MAX
