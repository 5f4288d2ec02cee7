from penstock.controller.sessions import Sessions
from penstock.model.ids import NodeId
from tests.unit.controller.cluster import broker, cluster

IMAGE = cluster(broker(1), broker(2), broker(3, fenced=True))
ONE, TWO = NodeId(1), NodeId(2)


def begun() -> Sessions:
    sessions = Sessions(9.0)
    sessions.begin(IMAGE.brokers.values(), now=100.0)
    return sessions


def test_a_new_controller_gives_every_unfenced_broker_a_full_session() -> None:
    sessions = begun()
    assert sessions.expired(IMAGE, now=109.0) == []
    assert sessions.expired(IMAGE, now=109.1) == [1, 2]
    assert not sessions.is_alive(ONE, now=100.0)


def test_a_heartbeat_restarts_the_session() -> None:
    sessions = begun()
    sessions.touch(ONE, 1, 108.0)
    assert sessions.expired(IMAGE, now=110.0) == [2]
    assert sessions.is_alive(ONE, now=110.0)
    assert not sessions.is_alive(ONE, now=118.0)


def test_a_heartbeat_applies_to_its_own_registration() -> None:
    sessions = begun()
    sessions.touch(ONE, 7, 108.0, metadata_offset=5)
    # The image still has the previous registration, which gets a session of its own.
    assert sessions.expired(IMAGE, now=110.0) == [2]
    assert sessions.expired(IMAGE, now=120.0) == [1, 2]


def test_a_forgotten_broker_is_not_alive() -> None:
    sessions = begun()
    sessions.touch(ONE, 1, 101.0)
    sessions.forget(ONE)
    assert not sessions.is_alive(ONE, now=101.0)


def test_the_offset_seen_by_all_is_the_smallest_one() -> None:
    sessions = begun()
    sessions.touch(ONE, 1, 101.0, metadata_offset=7)
    assert sessions.least_offset_seen(IMAGE) == -1
    sessions.touch(TWO, 2, 101.0, metadata_offset=5)
    assert sessions.least_offset_seen(IMAGE) == 5
    assert sessions.least_offset_seen(cluster(broker(1, leaving=True), broker(2, fenced=True))) is None


def test_the_offset_of_a_shutdown_is_recorded_once() -> None:
    sessions = begun()
    sessions.record_shutdown(ONE, 5)
    sessions.record_shutdown(ONE, 6)
    assert sessions.leaving_since(ONE) == 5
    assert sessions.leaving_since(TWO) is None
    sessions.touch(ONE, 8, 101.0)
    assert sessions.leaving_since(ONE) is None
