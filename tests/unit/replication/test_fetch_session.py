from random import Random

import pytest

from penstock.model.errors import FetchSessionIdNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch
from penstock.ports.network import FileSlice
from penstock.replication import fetch_session
from penstock.replication.fetch_session import EPOCH_MAX, FetchSession, FetchSessions
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
    assert [key[0] for key in session.partitions] == [b"b", b"a"]


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
