from penstock.controller.sessions import Sessions
from penstock.model.ids import NodeId
from tests.unit.controller.cluster import broker, cluster

IMAGE = cluster(broker(1), broker(2), broker(3, fenced=True))
ONE, TWO = NodeId(1), NodeId(2)


def begun() -> Sessions:
    sessions = Sessions(9.0)
    sessions.begin(IMAGE.brokers.values(), now=100.0)
    return sessions


def test_a_new_controller_gives_every_unfenced_broker_a_whole_session() -> None:
    sessions = begun()
    assert sessions.expired(IMAGE, now=109.0) == []
    assert sessions.expired(IMAGE, now=109.1) == [1, 2]
    assert not sessions.is_heard(ONE, now=100.0)


def test_a_heartbeat_begins_the_session_anew() -> None:
    sessions = begun()
    sessions.touch(ONE, 1, 108.0)
    assert sessions.expired(IMAGE, now=110.0) == [2]
    assert sessions.is_heard(ONE, now=110.0)
    assert not sessions.is_heard(ONE, now=118.0)


def test_a_heartbeat_counts_for_the_registration_it_came_with() -> None:
    sessions = begun()
    sessions.touch(ONE, 7, 108.0, metadata_offset=5)
    # The image still has the registration before it: that one gets a session of its own, and no more.
    assert sessions.expired(IMAGE, now=110.0) == [2]
    assert sessions.expired(IMAGE, now=120.0) == [1, 2]


def test_who_was_forgotten_is_not_heard() -> None:
    sessions = begun()
    sessions.touch(ONE, 1, 101.0)
    sessions.forget(ONE)
    assert not sessions.is_heard(ONE, now=101.0)


def test_what_every_serving_broker_has_seen_is_the_least_of_it() -> None:
    sessions = begun()
    sessions.touch(ONE, 1, 101.0, metadata_offset=7)
    assert sessions.least_offset_seen(IMAGE) == -1
    sessions.touch(TWO, 2, 101.0, metadata_offset=5)
    assert sessions.least_offset_seen(IMAGE) == 5
    assert sessions.least_offset_seen(cluster(broker(1, leaving=True), broker(2, fenced=True))) is None


def test_the_point_from_which_a_broker_leaves_is_noted_once() -> None:
    sessions = begun()
    sessions.note_leaving(ONE, 5)
    sessions.note_leaving(ONE, 6)
    assert sessions.leaving_since(ONE) == 5
    assert sessions.leaving_since(TWO) is None
    sessions.touch(ONE, 8, 101.0)
    assert sessions.leaving_since(ONE) is None
