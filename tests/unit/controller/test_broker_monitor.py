"""The monitor on a clock that is moved by hand, with a quorum that commits at once and peers that answer as told."""

from collections.abc import AsyncIterator, Sequence
from uuid import UUID

import pytest

from penstock.client.interfaces import PeerGone, PeerUnavailable
from penstock.config.settings import BrokerSettings
from penstock.controller.broker_monitor import BrokerMonitor
from penstock.controller.brokers import Registration
from penstock.controller.controller import Controller
from penstock.controller.heartbeats import Heartbeat
from penstock.metadata.image import Image
from penstock.metadata.records import BrokerEndpoint, MetadataRecord
from penstock.model.errors import DuplicateBrokerRegistration, NotController, StaleBrokerEpoch
from penstock.model.ids import NodeId
from tests.support.stepped_clock import SteppedClock, settle
from tests.unit.controller.cluster import apply, broker, cluster, directory, node_ids, partition, with_partition

SETTINGS = BrokerSettings({"min.insync.replicas": "2"})
TWO = NodeId(2)


class InstantQuorum:
    def __init__(self, image: Image) -> None:
        self.image = image
        self.is_active = True

    async def commit(self, records: Sequence[MetadataRecord]) -> None:
        self.image = apply(self.image, records)


class Machines:
    """What the machines of other brokers say when they are asked."""

    def __init__(self) -> None:
        self.problems: dict[int, PeerUnavailable] = {}
        self.asked: list[int] = []

    async def probe(self, node: int, *, timeout_s: float) -> None:
        self.asked.append(node)
        if node in self.problems:
            raise self.problems[node]


class MonitoredCluster:
    def __init__(self) -> None:
        image = with_partition(cluster(broker(1), broker(2), broker(3)), leader=2, replicas=(2, 1, 3))
        self.quorum = InstantQuorum(image)
        self.clock = SteppedClock()
        self.machines = Machines()
        self.monitor = BrokerMonitor(
            node_id=NodeId(1),
            cluster_id="c",
            controller=Controller(self.quorum),
            peers=self.machines,  # type: ignore[arg-type]
            clock=self.clock,
            current_settings=lambda: SETTINGS,
        )

    async def beat(self, node_id: int, connection: object = None, *, stop: bool = False) -> object:
        heartbeat = Heartbeat(
            node_id=NodeId(node_id),
            broker_epoch=self.quorum.image.brokers[NodeId(node_id)].epoch,
            metadata_offset=self.quorum.image.offset,
            want_shut_down=stop,
        )
        return await self.monitor.heartbeat(heartbeat, connection or f"connection of {node_id}")

    def fenced(self) -> list[int]:
        return [broker.node_id for broker in self.quorum.image.brokers.values() if broker.fenced]


@pytest.fixture
async def world() -> AsyncIterator[MonitoredCluster]:
    made = MonitoredCluster()
    made.monitor.leadership_changed(True, 1)
    await settle()
    yield made
    made.monitor.stop()
    await settle()


async def test_who_is_silent_for_a_session_is_fenced_and_others_take_over(world: MonitoredCluster) -> None:
    for _ in range(5):
        await world.beat(1)
        await world.beat(3)
        await world.clock.advance(2.0)
    assert world.fenced() == [2]
    assert (partition(world.quorum.image).leader, partition(world.quorum.image).isr) == (1, node_ids(1, 3))


async def test_a_broken_connection_alone_fences_nobody(world: MonitoredCluster) -> None:
    await world.beat(2, "line")
    world.monitor.connection_lost("line")
    await world.clock.advance(1.0)
    assert 2 in world.machines.asked
    world.machines.problems[2] = PeerUnavailable("silence")
    await world.clock.advance(1.0)
    assert world.fenced() == []


async def test_a_process_that_is_gone_is_fenced_at_once(world: MonitoredCluster) -> None:
    await world.beat(2, "line")
    world.machines.problems[2] = PeerGone("nobody listens")
    world.monitor.connection_lost("line")
    await settle()
    assert world.fenced() == [2]


async def test_a_process_that_takes_a_moment_to_go_is_asked_after_again_at_once(world: MonitoredCluster) -> None:
    await world.beat(2, "line")
    world.monitor.connection_lost("line")
    await settle()
    assert world.fenced() == []
    world.machines.problems[2] = PeerGone("nobody listens")
    await world.clock.advance(0.02)
    assert world.fenced() == [2]


async def test_an_old_connection_of_a_broker_that_has_a_newer_one_is_no_news(world: MonitoredCluster) -> None:
    await world.beat(2, "old")
    await world.beat(2, "new")
    world.machines.asked.clear()
    world.machines.problems[2] = PeerGone("nobody listens")
    world.monitor.connection_lost("old")
    world.monitor.connection_lost("stranger")
    await settle()
    assert world.machines.asked == []


async def test_a_new_controller_finds_out_who_died_with_the_one_before_it() -> None:
    world = MonitoredCluster()
    world.machines.problems[2] = PeerGone("nobody listens")
    world.monitor.leadership_changed(True, 1)
    await settle()
    assert world.fenced() == [2]
    assert world.machines.asked == [2, 3]
    world.monitor.stop()


async def test_who_is_no_longer_the_controller_hears_and_fences_nobody(world: MonitoredCluster) -> None:
    world.monitor.leadership_changed(False, 2)
    with pytest.raises(NotController):
        await world.beat(2)
    await world.clock.advance(20.0)
    assert world.fenced() == []


def registration(node_id: int, *, host: str) -> Registration:
    return Registration(
        node_id=NodeId(node_id),
        cluster_id="c",
        incarnation_id=UUID(int=7),
        end_points=(BrokerEndpoint(name="PLAINTEXT", host=host, port=9092, security_protocol=0),),
        log_dirs=(directory(node_id),),
    )


async def test_a_second_process_of_an_id_is_refused_while_the_first_is_heard(world: MonitoredCluster) -> None:
    await world.beat(2)
    with pytest.raises(DuplicateBrokerRegistration):
        await world.monitor.register(registration(2, host="elsewhere"), "new line")


async def test_a_process_that_holds_the_address_of_its_former_self_takes_its_place(world: MonitoredCluster) -> None:
    await world.beat(2)
    epoch = await world.monitor.register(registration(2, host="host2"), "new line")
    now = world.quorum.image.brokers[TWO]
    assert (now.epoch, now.fenced) == (epoch, True)
    assert partition(world.quorum.image).leader == 1
    with pytest.raises(StaleBrokerEpoch):
        await world.monitor.heartbeat(Heartbeat(node_id=TWO, broker_epoch=2, metadata_offset=99), "line")
    await world.beat(2)
    assert world.fenced() == []


async def test_whom_this_controller_has_never_heard_protects_nothing(world: MonitoredCluster) -> None:
    await world.monitor.register(registration(2, host="elsewhere"), "new line")
    assert world.fenced() == [2]


async def test_a_broker_may_stop_once_all_others_know_who_leads_instead(world: MonitoredCluster) -> None:
    for node_id in (1, 2, 3):
        await world.beat(node_id)
    reply = await world.beat(2, stop=True)
    assert getattr(reply, "leaving", None) is True
    assert partition(world.quorum.image).leader == 1
    await world.beat(1)
    assert getattr(await world.beat(2, stop=True), "should_shut_down", None) is False
    await world.beat(3)
    assert getattr(await world.beat(2, stop=True), "should_shut_down", None) is True
    assert world.fenced() == [2]


async def test_a_controller_that_was_held_up_blames_nobody_for_its_own_silence(world: MonitoredCluster) -> None:
    for node_id in (1, 2, 3):
        await world.beat(node_id)
    world.clock.skip(60.0)
    await world.clock.advance(1.0)
    assert world.fenced() == []
    await world.clock.advance(10.0)
    assert world.fenced() == [1, 2, 3]


async def test_preferred_leaders_come_back_from_time_to_time(world: MonitoredCluster) -> None:
    world.quorum.image = with_partition(cluster(broker(1), broker(2)), leader=2, replicas=(1, 2))
    for _ in range(155):
        await world.beat(1)
        await world.beat(2)
        await world.clock.advance(2.0)
    assert partition(world.quorum.image).leader == 1
