from random import Random
from unittest.mock import MagicMock

import pytest

from penstock.model.errors import FetchSessionIdNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch
from penstock.model.job import finish
from penstock.ports.network import FileSlice
from penstock.replication import fetch_session
from penstock.replication.fetch_session import EPOCH_MAX, PARTITIONS_PER_STEP, FetchSession, FetchSessions
from penstock.wire.hot.fetch import FetchPartition, FetchRequest, PartitionAnswer


def asked(topic: str, index: int, offset: int = 0) -> FetchPartition:
    return FetchPartition(topic.encode(), index, -1, offset, -1, -1, 1000)


def request(session_id: int, epoch: int, *partitions: FetchPartition, forgotten: tuple[str, ...] = ()) -> FetchRequest:
    made = FetchRequest()
    made.session_id = session_id
    made.session_epoch = epoch
    made.partitions = list(partitions)
    made.forgotten = [(topic.encode(), 0) for topic in forgotten]
    return made


def answer(topic: str, *, mark: int, start: int = 0, size: int = 0, error: int = 0) -> PartitionAnswer:
    records = FileSlice(None, 0, size) if size else None  # type: ignore[arg-type]
    return PartitionAnswer(topic.encode(), 0, error, mark, mark, start, records)


def sessions(count_max: int = 10) -> FetchSessions:
    return FetchSessions(Random(1), count_max=count_max, eviction_s=120)


def begun(cache: FetchSessions, *topics: str, now: float = 0.0) -> FetchSession:
    session = cache.begin(request(0, 0, *(asked(topic, 0) for topic in topics)), by_id=False, now=now)
    assert session is not None
    return session


def names(answers: list[PartitionAnswer]) -> list[bytes]:
    return [each.topic for each in answers]


def test_a_full_fetch_may_begin_a_session() -> None:
    cache = sessions()
    assert cache.find(request(0, 0, asked("a", 0)), by_id=False, now=0.0) is None
    session = begun(cache, "a")
    assert session.id > 0
    assert cache.find(request(session.id, 1), by_id=False, now=0.0) is session
    assert session.epoch == 2


def test_a_fetch_without_a_session_begins_none() -> None:
    assert sessions().begin(request(0, -1, asked("a", 0)), by_id=False, now=0.0) is None


def test_an_unknown_session_is_rejected() -> None:
    with pytest.raises(FetchSessionIdNotFound):
        sessions().find(request(77, 1), by_id=False, now=0.0)


def test_a_wrong_epoch_is_rejected_and_changes_nothing() -> None:
    cache = sessions()
    session = begun(cache, "a")
    with pytest.raises(InvalidFetchSessionEpoch):
        cache.find(request(session.id, 2, asked("b", 0)), by_id=False, now=0.0)
    assert list(session.partitions) == [(b"a", 0)]


def test_topic_names_and_topic_ids_cannot_be_mixed_in_one_session() -> None:
    cache = sessions()
    session = begun(cache, "a")
    with pytest.raises(FetchSessionTopicIdError):
        cache.find(request(session.id, 1), by_id=True, now=0.0)


def test_partitions_are_added_changed_and_removed() -> None:
    cache = sessions()
    session = begun(cache, "a", "b")
    cache.find(request(session.id, 1, asked("a", 0, 5), asked("c", 0), forgotten=("b",)), by_id=False, now=0.0)
    assert {key[0]: cached.requested.offset for key, cached in session.partitions.items()} == {b"a": 5, b"c": 0}


def test_a_session_without_partitions_ends() -> None:
    cache = sessions()
    session = begun(cache, "a")
    assert cache.find(request(session.id, 1, forgotten=("a",)), by_id=False, now=0.0) is None
    assert len(cache) == 0


def test_the_final_epoch_closes_the_session() -> None:
    cache = sessions()
    session = begun(cache, "a")
    assert cache.find(request(session.id, -1), by_id=False, now=0.0) is None
    assert len(cache) == 0


def test_epochs_wrap_to_one() -> None:
    session = begun(sessions(), "a")
    session.epoch = EPOCH_MAX
    session.update(request(session.id, EPOCH_MAX), 0.0)
    assert session.epoch == 1


def test_only_changes_are_sent() -> None:
    session = begun(sessions(), "a", "b", "c", "d")
    session.remember(answer(topic, mark=10) for topic in "abcd")
    news = session.news(
        [answer("a", mark=10), answer("b", mark=11), answer("c", mark=10, size=5), answer("d", mark=10, start=2)]
    )
    assert names(news) == [b"b", b"c", b"d"]
    assert session.news([answer("a", mark=10), answer("b", mark=11)]) == []


def test_every_error_and_the_first_response_after_it_are_sent() -> None:
    session = begun(sessions(), "a")
    session.remember([answer("a", mark=10)])
    failed = answer("a", mark=-1, error=6)
    assert session.news([failed]) == [failed]
    assert session.news([failed]) == [failed]
    assert names(session.news([answer("a", mark=10)])) == [b"a"]


def test_partitions_with_records_move_behind_the_others() -> None:
    session = begun(sessions(), "a", "b")
    session.news([answer("a", mark=1, size=9), answer("b", mark=1)])
    assert [cached.requested.topic for cached in session.ready] == [b"b", b"a"]


def test_a_full_cache_evicts_only_old_sessions() -> None:
    cache = sessions(count_max=1)
    begun(cache, "a", now=0.0)
    assert cache.begin(request(0, 0, asked("b", 0)), by_id=False, now=119.0) is None
    assert cache.begin(request(0, 0, asked("b", 0)), by_id=False, now=121.0) is not None
    assert len(cache) == 1


def test_the_number_of_partitions_in_all_sessions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_session, "PARTITIONS_MAX", 5)
    cache = sessions()
    first = begun(cache, "a", "b", "c")
    begun(cache, "d", "e")
    assert cache.begin(request(0, 0, asked("f", 0)), by_id=False, now=0.0) is None
    with pytest.raises(FetchSessionIdNotFound):
        cache.find(request(first.id, 1, asked("f", 0)), by_id=False, now=0.0)
    # Sessions that end in any way make room again.
    second = begun(cache, "f", "g")
    assert cache.find(request(second.id, 1, forgotten=("f", "g")), by_id=False, now=0.0) is None
    third = begun(cache, "f", "g", "h")
    assert cache.find(request(third.id, -1), by_id=False, now=0.0) is None
    begun(cache, "f", "g", "h")


def test_a_changed_partition_wakes_the_fetch_that_waits() -> None:
    session = begun(sessions(), "a", "b")
    session.ready.clear()
    waiting = MagicMock()
    session.wait_with(waiting)
    cached = session.partitions[b"a", 0]
    cached.changed()
    assert list(session.ready) == [cached]
    waiting.changed.assert_called_once_with()


def test_forgetting_an_unknown_partition_changes_nothing() -> None:
    cache = sessions()
    session = begun(cache, "a")
    assert cache.find(request(session.id, 1, forgotten=("unknown",)), by_id=False, now=0.0) is session
    assert list(session.partitions) == [(b"a", 0)]


def test_the_session_of_another_principal_is_not_found() -> None:
    cache = sessions()
    session = cache.begin(request(0, 0, asked("a", 0)), by_id=False, now=0.0, owner="alice")
    assert session is not None
    with pytest.raises(FetchSessionIdNotFound):
        cache.find(request(session.id, 1), by_id=False, now=0.0, owner="mallory")
    assert cache.find(request(session.id, -1), by_id=False, now=0.0, owner="mallory") is None
    assert len(cache) == 1, "nobody else can end it"


def test_changed_rights_let_sessions_with_an_owner_read_everything() -> None:
    cache = sessions()
    owned = cache.begin(request(0, 0, asked("a", 0)), by_id=False, now=0.0, owner="alice")
    free = begun(cache, "a")
    assert owned is not None
    for session in (owned, free):
        session.ready.clear()
    finish(cache.reading_all_again())
    assert (len(owned.ready), len(free.ready)) == (1, 0)


def test_a_session_with_many_partitions_is_read_again_in_steps() -> None:
    cache = sessions()
    count = 2 * PARTITIONS_PER_STEP + 1
    session = cache.begin(
        request(0, 0, *(asked("a", index) for index in range(count))), by_id=False, now=0.0, owner="alice"
    )
    assert session is not None
    session.ready.clear()
    job = cache.reading_all_again()
    next(job)
    assert len(session.ready) == PARTITIONS_PER_STEP
    session.partitions.pop((b"a", count - 1))
    finish(job)
    assert len(session.ready) == count - 1, "the removed one stays removed"


def test_session_ids_are_unique() -> None:
    random = MagicMock()
    random.randint.side_effect = [5, 5, 5, 6]
    cache = FetchSessions(random, count_max=10, eviction_s=120)
    assert [begun(cache, "a").id, begun(cache, "b").id] == [5, 6]
