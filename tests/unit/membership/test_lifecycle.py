"""The lifecycle of a broker against a scripted controller."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from penstock.client.interfaces import PeerUnavailable
from penstock.config.settings import BrokerSettings
from penstock.membership.lifecycle import NOT_REGISTERED, Identity, Lifecycle
from penstock.metadata.delta import Delta
from penstock.model.errors import StartupError
from penstock.model.ids import NodeId
from penstock.wire.api import ApiKey
from tests.support.stepped_clock import SteppedClock, settle
from tests.unit.controller.cluster import broker, cluster

IDENTITY = Identity(
    node_id=NodeId(1),
    cluster_id="c",
    incarnation_id=UUID(int=9),
    end_points=(),
    features=(),
    rack="r",
    log_dirs=(UUID(int=500),),
    previous_broker_epoch=3,
)


class Controller:
    def __init__(self) -> None:
        self.registrations: list[Any] = []
        self.heartbeats: list[Any] = []
        self.controllers: list[Any] = []
        self.refusals: list[ErrorCode] = []
        self.silent = False
        self.allows_stop_after = 2

    async def ask(self, api_key: int, request: Any, *, timeout_s: float) -> Any:
        if self.silent:
            raise PeerUnavailable("no answer")
        error = self.refusals.pop(0) if self.refusals else ErrorCode.none
        if api_key == ApiKey.CONTROLLER_REGISTRATION:
            self.controllers.append(request)
            return SimpleNamespace(error_code=error)
        if api_key == ApiKey.BROKER_REGISTRATION:
            self.registrations.append(request)
            return SimpleNamespace(error_code=error, broker_epoch=10 * len(self.registrations))
        self.heartbeats.append(request)
        leaving = sum(each.want_shut_down for each in self.heartbeats)
        return SimpleNamespace(
            error_code=error,
            is_fenced=request.want_fence or request.current_metadata_offset < request.broker_epoch,
            should_shut_down=leaving >= self.allows_stop_after,
        )


class BrokerUnderTest:
    def __init__(self, identity: Identity = IDENTITY) -> None:
        self.controller = Controller()
        self.clock = SteppedClock()
        self.offset = 100
        self.quorum_gone = False
        self.settings = BrokerSettings()
        self.broker = Lifecycle(
            identity,
            channel=self.controller,
            clock=self.clock,
            current_settings=lambda: self.settings,
            seen_offset=lambda: self.offset,
            quorum_is_gone=self.quorum_is_gone,
        )

    async def quorum_is_gone(self) -> bool:
        return self.quorum_gone

    async def started(self) -> None:
        await self.broker.register()
        await self.broker.serve()


def serves(world: BrokerUnderTest) -> bool:
    return world.broker.broker_epoch != NOT_REGISTERED and not world.broker._fenced


@pytest.fixture
async def world() -> AsyncIterator[BrokerUnderTest]:
    made = BrokerUnderTest()
    yield made
    made.broker.stop()
    await settle()


async def test_a_broker_is_registered_then_fenced_until_it_is_ready(world: BrokerUnderTest) -> None:
    await world.broker.register()
    (request,) = world.controller.registrations
    assert (request.broker_id, request.previous_broker_epoch, request.rack) == (1, 3, "r")
    assert request.log_dirs == (UUID(int=500),)
    await settle()
    assert world.controller.heartbeats[0].want_fence
    assert not serves(world)
    await world.broker.serve()
    assert serves(world)
    assert world.broker.broker_epoch == 10


async def test_a_start_without_waiting_takes_no_time(world: BrokerUnderTest) -> None:
    before = world.clock.monotonic()
    await world.started()
    assert world.clock.monotonic() == before


async def test_heartbeats_are_sent_at_their_interval(world: BrokerUnderTest) -> None:
    await world.started()
    count = len(world.controller.heartbeats)
    await world.clock.advance(20.0)
    assert len(world.controller.heartbeats) - count == 10


async def test_the_lease_ends_before_a_controller_can_fence_the_broker(world: BrokerUnderTest) -> None:
    await world.broker.register()
    await settle()
    assert not world.broker.has_lease(), "it is fenced"
    await world.broker.serve()
    assert world.broker.has_lease()
    await world.clock.advance(20.0)
    assert world.broker.has_lease(), "each heartbeat extends it"
    world.controller.silent = True
    await world.clock.advance(3.5)
    assert world.broker.has_lease(), "a late heartbeat or two do not end it"
    await world.clock.advance(3.0)
    assert not world.broker.has_lease(), "the session lasts for 9 s"
    world.controller.silent = False
    await world.clock.advance(3.0)
    assert world.broker.has_lease()


async def test_the_lease_does_not_end_between_two_heartbeats(world: BrokerUnderTest) -> None:
    world.settings = BrokerSettings({"broker.session.timeout.ms": "2500"})
    await world.started()
    for _ in range(50):
        await world.clock.advance(0.1)
        assert world.broker.has_lease()


async def test_the_lease_counts_from_the_time_at_which_the_heartbeat_was_sent(world: BrokerUnderTest) -> None:
    await world.started()
    answer, may_answer = world.controller.ask, asyncio.Event()

    async def late(api_key: int, request: Any, *, timeout_s: float) -> Any:
        await may_answer.wait()
        return await answer(api_key, request, timeout_s=timeout_s)

    world.controller.ask = late  # type: ignore[method-assign]
    count = len(world.controller.heartbeats)
    await world.clock.advance(9.0)
    may_answer.set()
    await settle()
    assert len(world.controller.heartbeats) == count + 1
    assert not world.broker.has_lease()


async def test_a_broker_that_is_behind_retries_soon_and_when_its_image_has_caught_up(world: BrokerUnderTest) -> None:
    world.offset = 5
    await world.broker.register()
    serving = asyncio.ensure_future(world.broker.serve())
    await world.clock.advance(0.5)
    assert not serving.done()
    assert len(world.controller.heartbeats) > 5
    world.offset = 10
    image = cluster(*[broker(1)] * 11)
    world.broker.image_changed(Delta.whole(image), image)
    await settle()
    assert serving.done()


async def test_a_broker_unknown_to_the_controller_registers_again(world: BrokerUnderTest) -> None:
    await world.started()
    world.controller.refusals.append(ErrorCode.stale_broker_epoch)
    await world.clock.advance(3.0)
    assert world.broker.broker_epoch == 20
    assert world.controller.registrations[-1].previous_broker_epoch == 10
    assert serves(world)


async def test_registration_waits_while_another_process_has_the_same_id(world: BrokerUnderTest) -> None:
    world.controller.refusals.extend([ErrorCode.duplicate_broker_registration] * 3)
    registering = asyncio.ensure_future(world.broker.register())
    await world.clock.advance(1.0)
    assert registering.done()
    assert len(world.controller.registrations) == 4


async def test_a_node_of_another_cluster_does_not_start(world: BrokerUnderTest) -> None:
    world.controller.refusals.append(ErrorCode.inconsistent_cluster_id)
    with pytest.raises(StartupError, match="another cluster"):
        await world.broker.register()


async def test_a_start_without_a_controller_fails_with_a_reason(world: BrokerUnderTest) -> None:
    world.controller.silent = True
    registering = asyncio.ensure_future(world.broker.register())
    await world.clock.advance(61.0)
    with pytest.raises(StartupError, match="majority of the voters"):
        await registering
    assert world.broker.broker_epoch == NOT_REGISTERED


async def test_requests_are_retried_while_no_controller_answers(world: BrokerUnderTest) -> None:
    await world.started()
    world.controller.silent = True
    await world.clock.advance(5.0)
    world.controller.silent = False
    count = len(world.controller.heartbeats)
    await world.clock.advance(0.3)
    assert len(world.controller.heartbeats) > count


async def test_a_broker_hands_over_before_it_stops(world: BrokerUnderTest) -> None:
    await world.started()
    world.controller.allows_stop_after = 4
    leaving = asyncio.ensure_future(world.broker.leave())
    await settle()
    assert not leaving.done()
    await world.clock.advance(0.2)
    assert leaving.done()
    assert [each.want_shut_down for each in world.controller.heartbeats[-4:]] == [True] * 4


async def test_a_broker_without_a_controller_stops_after_a_timeout(world: BrokerUnderTest) -> None:
    await world.started()
    world.controller.silent = True
    leaving = asyncio.ensure_future(world.broker.leave())
    await world.clock.advance(2.0)
    assert not leaving.done()
    await world.clock.advance(2.0)
    assert leaving.done()


async def test_a_broker_whose_quorum_is_lost_stops_soon(world: BrokerUnderTest) -> None:
    await world.started()
    world.controller.silent = world.quorum_gone = True
    leaving = asyncio.ensure_future(world.broker.leave())
    await world.clock.advance(0.5)
    assert leaving.done()


async def test_a_broker_with_a_controller_waits_for_permission_to_stop(world: BrokerUnderTest) -> None:
    await world.started()
    world.controller.allows_stop_after = 40
    world.quorum_gone = True
    leaving = asyncio.ensure_future(world.broker.leave())
    await world.clock.advance(1.5)
    assert not leaving.done()
    await world.clock.advance(1.5)
    assert leaving.done()
    assert len([each for each in world.controller.heartbeats if each.want_shut_down]) >= 40


async def test_a_response_during_the_check_of_the_quorum_cancels_the_stop(world: BrokerUnderTest) -> None:
    await world.started()
    world.controller.silent = True
    world.controller.allows_stop_after = 10
    looking: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    world.broker._quorum_is_gone = lambda: looking
    leaving = asyncio.ensure_future(world.broker.leave())
    await world.clock.advance(0.3)
    world.controller.silent = False
    await world.clock.advance(0.2)
    looking.set_result(True)
    await settle()
    assert not leaving.done()
    await world.clock.advance(1.0)
    assert leaving.done()


async def test_other_brokers_send_a_heartbeat_when_a_broker_begins_its_shutdown(world: BrokerUnderTest) -> None:
    await world.started()
    await settle()
    count = len(world.controller.heartbeats)
    image = cluster(broker(1), broker(2, leaving=True))
    world.broker.image_changed(Delta.whole(image), image)
    await settle()
    assert len(world.controller.heartbeats) == count + 1


async def test_a_broker_whose_disk_failed_asks_to_be_fenced(world: BrokerUnderTest) -> None:
    await world.started()
    world.broker.directory_failed(UUID(int=500))
    await settle()
    last = world.controller.heartbeats[-1]
    assert (last.want_fence, last.offline_log_dirs) == (True, (UUID(int=500),))


async def test_a_controller_registers_itself_when_it_serves() -> None:
    world = BrokerUnderTest(replace(IDENTITY, is_controller=True))
    await world.started()
    await world.clock.advance(5.0)
    (request,) = world.controller.controllers
    assert (request.controller_id, request.incarnation_id) == (1, UUID(int=9))
    world.broker.stop()


async def test_a_read_only_disk_and_its_recovery_are_reported_immediately(world: BrokerUnderTest) -> None:
    await world.started()
    await settle()
    before = len(world.controller.heartbeats)
    assert world.controller.heartbeats[-1].cordoned_log_dirs == ()
    world.broker.read_only_changed(True)
    await settle()
    assert len(world.controller.heartbeats) == before + 1
    assert world.controller.heartbeats[-1].cordoned_log_dirs == IDENTITY.log_dirs
    assert not world.controller.heartbeats[-1].want_fence
    world.broker.read_only_changed(False)
    await settle()
    assert world.controller.heartbeats[-1].cordoned_log_dirs == ()
