"""The monitor with a manual clock, a quorum that commits immediately, and scripted peers."""

from collections.abc import AsyncIterator, Sequence
from unittest import mock
from uuid import UUID

import pytest

from penstock.client.interfaces import PeerGone, PeerUnavailable
from penstock.config.settings import BrokerSettings
from penstock.controller import broker_monitor
from penstock.controller.broker_monitor import BrokerMonitor
from penstock.controller.brokers import Registration
from penstock.controller.controller import Controller
from penstock.controller.heartbeats import Heartbeat, deciding_heartbeat
from penstock.metadata.image import Image
from penstock.metadata.records import BrokerEndpoint, MetadataRecord
from penstock.model.errors import DuplicateBrokerRegistration, NotController, StaleBrokerEpoch
from penstock.model.ids import LeaderEpoch, NodeId
from tests.support.stepped_clock import SteppedClock, settle
from tests.unit.controller.cluster import apply, broker, cluster, directory, node_ids, partition, with_partition

SETTINGS = BrokerSettings({"min.insync.replicas": "2"})
TWO = NodeId(2)


class InstantQuorum:
    def __init__(self, image: Image) -> None:
        self.image = image
        self.is_active = True
        self.epoch = LeaderEpoch(1)

    async def commit(self, *parts: Sequence[MetadataRecord]) -> None:
        records = [record for part in parts for record in part]
        self.image = apply(self.image, records)


class Machines:
    """The responses of other brokers' machines to probes."""

    def __init__(self) -> None:
        self.problems: dict[int, PeerUnavailable] = {}
        self.probed: list[int] = []

    async def probe(self, node: int, *, timeout_s: float) -> None:
        self.probed.append(node)
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


async def test_a_broker_whose_session_expires_is_fenced_and_others_take_over(world: MonitoredCluster) -> None:
    for _ in range(5):
        await world.beat(1)
        await world.beat(3)
        await world.clock.advance(2.0)
    assert world.fenced() == [2]
    assert (partition(world.quorum.image).leader, partition(world.quorum.image).isr) == (1, node_ids(1, 3))


async def test_a_broken_connection_alone_does_not_fence_a_broker(world: MonitoredCluster) -> None:
    await world.beat(2, "line")
    world.monitor.connection_lost("line")
    await world.clock.advance(1.0)
    assert 2 in world.machines.probed
    world.machines.problems[2] = PeerUnavailable("silence")
    await world.clock.advance(1.0)
    assert world.fenced() == []


async def test_a_broker_whose_process_has_exited_is_fenced_immediately(world: MonitoredCluster) -> None:
    await world.beat(2, "line")
    world.machines.problems[2] = PeerGone("connection refused")
    world.monitor.connection_lost("line")
    await settle()
    assert world.fenced() == [2]


async def test_a_process_that_is_slow_to_exit_is_probed_again_soon(world: MonitoredCluster) -> None:
    await world.beat(2, "line")
    world.monitor.connection_lost("line")
    await settle()
    assert world.fenced() == []
    world.machines.problems[2] = PeerGone("connection refused")
    await world.clock.advance(0.02)
    assert world.fenced() == [2]


async def test_the_loss_of_an_old_connection_of_a_broker_is_ignored(world: MonitoredCluster) -> None:
    await world.beat(2, "old")
    await world.beat(2, "new")
    world.machines.probed.clear()
    world.machines.problems[2] = PeerGone("connection refused")
    world.monitor.connection_lost("old")
    world.monitor.connection_lost("stranger")
    await settle()
    assert world.machines.probed == []


async def test_a_new_controller_detects_brokers_that_exited_with_the_previous_controller() -> None:
    world = MonitoredCluster()
    world.machines.problems[2] = PeerGone("connection refused")
    world.monitor.leadership_changed(True, 1)
    await settle()
    assert world.fenced() == [2]
    assert world.machines.probed == [2, 3]
    world.monitor.stop()


async def test_a_former_controller_accepts_no_heartbeats_and_fences_nothing(world: MonitoredCluster) -> None:
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


async def test_a_second_process_with_the_same_id_is_refused_while_the_first_sends_heartbeats(
    world: MonitoredCluster,
) -> None:
    await world.beat(2)
    with pytest.raises(DuplicateBrokerRegistration):
        await world.monitor.register(registration(2, host="elsewhere"), "new connection")


async def test_a_process_at_the_address_of_its_predecessor_replaces_it(world: MonitoredCluster) -> None:
    await world.beat(2)
    epoch = await world.monitor.register(registration(2, host="host2"), "new connection")
    now = world.quorum.image.brokers[TWO]
    assert (now.epoch, now.fenced) == (epoch, True)
    assert partition(world.quorum.image).leader == 1
    with pytest.raises(StaleBrokerEpoch):
        await world.monitor.heartbeat(Heartbeat(node_id=TWO, broker_epoch=2, metadata_offset=99), "line")
    await world.beat(2)
    assert world.fenced() == []


async def test_a_session_without_a_heartbeat_does_not_block_a_registration(world: MonitoredCluster) -> None:
    await world.monitor.register(registration(2, host="elsewhere"), "new connection")
    assert world.fenced() == [2]


async def test_a_broker_may_stop_when_all_others_know_the_new_leaders(world: MonitoredCluster) -> None:
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


async def test_a_heartbeat_that_changes_something_is_decided_once(
    world: MonitoredCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for node_id in (1, 2, 3):
        await world.beat(node_id)
    decided = mock.Mock(side_effect=deciding_heartbeat)
    monkeypatch.setattr(broker_monitor, "deciding_heartbeat", decided)
    await world.beat(2, stop=True)
    assert partition(world.quorum.image).leader == 1
    assert decided.call_count == 1


async def test_a_controller_that_was_delayed_fences_no_broker_for_it(world: MonitoredCluster) -> None:
    for node_id in (1, 2, 3):
        await world.beat(node_id)
    world.clock.skip(60.0)
    await world.clock.advance(1.0)
    assert world.fenced() == []
    await world.clock.advance(10.0)
    assert world.fenced() == [1, 2, 3]


async def test_preferred_leaders_are_restored_periodically(world: MonitoredCluster) -> None:
    world.quorum.image = with_partition(cluster(broker(1), broker(2)), leader=2, replicas=(1, 2))
    for _ in range(155):
        await world.beat(1)
        await world.beat(2)
        await world.clock.advance(2.0)
    assert partition(world.quorum.image).leader == 1
