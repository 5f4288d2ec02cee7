import pytest

from penstock.controller.heartbeats import Heartbeat, HeartbeatReply
from penstock.controller.sessions import Sessions
from penstock.metadata.image import Image
from penstock.metadata.records import BrokerRegistrationChangeRecord
from penstock.model.errors import StaleBrokerEpoch
from penstock.model.ids import NO_NODE, NodeId
from tests.unit.controller.cluster import (
    LEADER_RULES,
    apply,
    broker,
    cluster,
    decide_heartbeat,
    directory,
    node_ids,
    partition,
    with_partition,
)

ALIVE = cluster(broker(1), broker(2), broker(3))
LED = with_partition(ALIVE, leader=1, replicas=(1, 2, 3))
FENCED = with_partition(
    cluster(broker(1, fenced=True), broker(2), broker(3)), leader=NO_NODE, replicas=(1,), isr=(), elr=(1,)
)


def beat(
    image: Image,
    *,
    seen: int = 1,
    fence: bool = False,
    stop: bool = False,
    sessions: Sessions | None = None,
    offline: bool = False,
) -> tuple[HeartbeatReply, Image]:
    heartbeat = Heartbeat(
        node_id=NodeId(1),
        broker_epoch=1,
        metadata_offset=seen,
        want_fence=fence,
        want_shut_down=stop,
        offline_log_dirs=(directory(1),) if offline else (),
    )
    decision = decide_heartbeat(image, heartbeat, sessions=sessions or Sessions(9.0), rules=LEADER_RULES)
    return decision.reply, apply(image, decision.records)


def test_a_serving_broker_without_requests_continues() -> None:
    reply, after = beat(LED)
    assert reply == HeartbeatReply(is_caught_up=True, is_fenced=False)
    assert after.offset == LED.offset


def test_a_fenced_broker_is_unfenced_when_it_has_seen_its_registration() -> None:
    reply, after = beat(FENCED, seen=0)
    assert reply == HeartbeatReply(is_caught_up=False, is_fenced=True)
    reply, after = beat(FENCED, seen=1)
    assert reply == HeartbeatReply(is_caught_up=True, is_fenced=False)
    assert not after.brokers[NodeId(1)].fenced
    assert (partition(after).leader, partition(after).isr) == (1, node_ids(1))


def test_a_fenced_broker_that_is_not_ready_stays_fenced() -> None:
    reply, after = beat(FENCED, fence=True)
    assert reply.is_fenced
    assert after.brokers[NodeId(1)].fenced


def test_a_serving_broker_may_ask_to_be_fenced() -> None:
    reply, after = beat(LED, fence=True)
    assert reply.is_fenced
    assert not reply.should_shut_down
    assert (partition(after).leader, partition(after).isr) == (2, node_ids(2, 3))


def test_a_broker_that_leads_hands_over_before_it_may_stop() -> None:
    sessions = Sessions(9.0)
    sessions.begin(LED.brokers.values(), 0.0)
    sessions.touch(NodeId(1), 1, 0.0, metadata_offset=LED.offset)
    reply, after = beat(LED, stop=True, sessions=sessions)
    assert reply.leaving
    assert not reply.should_shut_down
    assert after.brokers[NodeId(1)].in_controlled_shutdown
    assert (partition(after).leader, partition(after).isr) == (2, node_ids(2, 3))
    sessions.record_shutdown(NodeId(1), after.offset)
    sessions.touch(NodeId(2), 2, 0.0, metadata_offset=after.offset)
    sessions.touch(NodeId(3), 3, 0.0, metadata_offset=after.offset - 1)
    assert beat(after, stop=True, sessions=sessions)[0].leaving
    sessions.touch(NodeId(3), 3, 0.0, metadata_offset=after.offset)
    reply, after = beat(after, stop=True, sessions=sessions)
    assert reply.should_shut_down
    assert after.brokers[NodeId(1)].fenced


def test_a_broker_that_leads_nothing_may_stop_immediately() -> None:
    reply, after = beat(with_partition(ALIVE, leader=2, replicas=(1, 2, 3)), stop=True)
    assert reply.should_shut_down
    assert after.brokers[NodeId(1)].fenced
    assert partition(after).isr == (2, 3)
    assert beat(FENCED, stop=True)[0].should_shut_down


def test_a_broker_in_shutdown_is_not_unfenced_with_its_old_registration() -> None:
    image = cluster(broker(1, fenced=True, leaving=True))
    assert beat(image)[0].is_fenced


def test_a_heartbeat_with_an_old_epoch_is_refused() -> None:
    for image in (cluster(broker(2)), apply(ALIVE, [broker(1)])):
        heartbeat = Heartbeat(node_id=NodeId(1), broker_epoch=0, metadata_offset=9)
        with pytest.raises(StaleBrokerEpoch):
            decide_heartbeat(image, heartbeat, sessions=Sessions(9.0), rules=LEADER_RULES)


def test_a_lost_directory_removes_its_replicas_from_the_isr() -> None:
    _, after = beat(with_partition(ALIVE, leader=2, replicas=(1, 2, 3)), offline=True)
    assert (partition(after).isr, partition(after).leader) == (node_ids(2, 3), 2)


# -- read-only brokers -----------------------------------------------------------------


def beat_read_only(image: Image, node_id: int, *, read_only: bool | None) -> tuple[HeartbeatReply, Image]:
    heartbeat = Heartbeat(
        node_id=NodeId(node_id), broker_epoch=node_id, metadata_offset=image.offset, read_only=read_only
    )
    decision = decide_heartbeat(image, heartbeat, sessions=Sessions(9.0), rules=LEADER_RULES)
    return decision.reply, apply(image, decision.records)


def test_a_read_only_leader_hands_over_and_leaves_the_isr() -> None:
    reply, after = beat_read_only(LED, 1, read_only=True)
    assert not reply.is_fenced
    assert after.brokers[NodeId(1)].read_only
    assert (partition(after).leader, partition(after).isr) == (2, node_ids(2, 3))
    assert partition(after).leader_epoch == 1


def test_a_read_only_follower_only_leaves_the_isr() -> None:
    _, after = beat_read_only(LED, 3, read_only=True)
    assert (partition(after).leader, partition(after).isr, partition(after).leader_epoch) == (1, node_ids(1, 2), 0)


def test_below_min_isr_a_read_only_replica_stays_eligible() -> None:
    _, after = beat_read_only(LED, 3, read_only=True)
    _, after = beat_read_only(after, 2, read_only=True)
    assert (partition(after).isr, partition(after).eligible_leader_replicas) == (node_ids(1), node_ids(2))


def test_the_last_in_sync_replica_stays_even_if_read_only() -> None:
    _, after = beat_read_only(LED, 3, read_only=True)
    _, after = beat_read_only(after, 2, read_only=True)
    _, after = beat_read_only(after, 1, read_only=True)
    assert (partition(after).leader, partition(after).isr) == (1, node_ids(1))


def test_a_single_replica_keeps_its_leader() -> None:
    alone = with_partition(ALIVE, leader=1, replicas=(1,))
    _, after = beat_read_only(alone, 1, read_only=True)
    assert (partition(after).leader, partition(after).isr) == (1, node_ids(1))


def test_a_repeated_or_missing_read_only_flag_changes_nothing() -> None:
    _, full = beat_read_only(LED, 1, read_only=True)
    for read_only in (True, None):
        assert beat_read_only(full, 1, read_only=read_only)[1].offset == full.offset
    assert not beat_read_only(full, 1, read_only=False)[1].brokers[NodeId(1)].read_only


def test_a_broker_that_starts_read_only_is_recorded_as_such_before_it_is_unfenced() -> None:
    image = with_partition(
        cluster(broker(1, fenced=True), broker(2), broker(3)), leader=NO_NODE, replicas=(1,), isr=(), elr=(1,)
    )
    reply, after = beat_read_only(image, 1, read_only=True)
    assert reply.is_fenced and after.brokers[NodeId(1)].read_only
    reply, after = beat_read_only(after, 1, read_only=True)
    assert not reply.is_fenced
    # It is the only broker with the data, so it leads and serves reads.
    assert (partition(after).leader, partition(after).isr) == (1, node_ids(1))


def test_a_writable_eligible_replica_is_elected_before_a_read_only_one() -> None:
    brokers = cluster(broker(1, read_only=True), broker(2, fenced=True), broker(3, fenced=True))
    image = with_partition(brokers, leader=NO_NODE, replicas=(1, 2, 3), isr=(), elr=(1, 2))
    image = apply(image, [BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=2, fenced=-1)])
    _, after = beat_read_only(image, 3, read_only=None)
    assert partition(after).leader == NO_NODE or partition(after).leader == 2


def test_a_shutdown_of_which_only_the_beginning_was_committed_moves_the_leaderships_that_are_left() -> None:
    image = apply(LED, [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, in_controlled_shutdown=1)])
    reply, after = beat(image, stop=True)
    assert reply.leaving and not reply.should_shut_down
    assert partition(after).leader == 2
