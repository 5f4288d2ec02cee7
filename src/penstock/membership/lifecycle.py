"""A broker's life as the controller is to see it: registers, sends heartbeats, hands over before it stops.

Goes to the active controller through client/channel.py, in this process or another. Fenced until `ready`; registers
again when the controller no longer knows it. The table of states stands in docs/internals/controller.md.
Refuses: StartupError when the cluster will not have this node, or nobody answers in time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

from penstock.client.channel import pause
from penstock.client.interfaces import ControllerChannel, PeerUnavailable
from penstock.model.errors import (
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRegistration,
    StaleBrokerEpoch,
    StartupError,
    UnsupportedVersion,
)
from penstock.wire.api import ApiKey

if TYPE_CHECKING:
    from penstock.config.settings import BrokerSettings
    from penstock.metadata.delta import Delta
    from penstock.metadata.image import Image
    from penstock.metadata.records import BrokerEndpoint, BrokerFeature
    from penstock.model.ids import NodeId
    from penstock.ports.clock import Clock, Timer

NOT_REGISTERED: Final = -1
SOON_S: Final = 0.05
"""The pause between heartbeats of a broker that waits for something: to serve, or to be let go."""
RETRY_S: Final = 0.2
ASK_S_MAX: Final = 4.0
LEAVE_S_MAX: Final = 30.0
UNANSWERED_S_MAX: Final = 3.0
"""A broker that wants to stop and hears no controller for this long stops: there may be nobody to ask."""

_HOPELESS: Final = {
    InconsistentClusterId.code: "it belongs to another cluster",
    InvalidRegistration.code: "its data folder is registered for another node",
    UnsupportedVersion.code: "it does not support the features of this cluster",
}
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What this process is; the incarnation id is fresh with every start."""

    node_id: "NodeId"
    cluster_id: str
    incarnation_id: UUID
    end_points: "tuple[BrokerEndpoint, ...]"
    features: "tuple[BrokerFeature, ...]"
    rack: str | None
    log_dirs: tuple[UUID, ...]
    previous_broker_epoch: int
    is_controller: bool = False


class Lifecycle:
    def __init__(
        self,
        identity: Identity,
        *,
        channel: ControllerChannel,
        clock: "Clock",
        current_settings: "Callable[[], BrokerSettings]",
        seen_offset: Callable[[], int],
        quorum_is_gone: Callable[[], Awaitable[bool]],
    ) -> None:
        """`quorum_is_gone` finds out whether no controller can answer any more, however long one waits."""
        self._identity = identity
        self._channel = channel
        self._clock = clock
        self._current_settings = current_settings
        self._seen_offset = seen_offset
        self._quorum_is_gone = quorum_is_gone
        self.broker_epoch = NOT_REGISTERED
        self._previous_epoch = identity.previous_broker_epoch
        self._ready = False
        self._fenced = True
        self._leaving = False
        self._asked_to_leave = False
        self._told_controller = not identity.is_controller
        self._offline: tuple[UUID, ...] = ()
        self._read_only = False
        self._answered_at = clock.monotonic()
        self._task: asyncio.Task[None] | None = None
        self._alarm: asyncio.Future[None] | None = None
        self._awake = False
        loop = asyncio.get_running_loop()
        self._registered: asyncio.Future[None] = loop.create_future()
        self._serving: asyncio.Future[None] = loop.create_future()
        self._may_stop: asyncio.Future[None] = loop.create_future()

    @property
    def is_serving(self) -> bool:
        return self.broker_epoch != NOT_REGISTERED and not self._fenced

    # -- what the node says ----------------------------------------------------------------

    async def register(self) -> None:
        """Return once the controller has registered this process. Heartbeats go on from here."""
        self._task = asyncio.get_running_loop().create_task(self._live())
        seconds = self._current_settings().integer("initial.broker.registration.timeout.ms") / 1000
        await self._in_time(
            self._registered, seconds, "no controller has registered this node: is a majority of the voters up?"
        )

    async def serve(self) -> None:
        """The logs are open: return once the controller lets this broker serve."""
        self._ready = True
        self._wake()
        seconds = self._current_settings().integer("initial.broker.registration.timeout.ms") / 1000
        await self._in_time(self._serving, seconds, "the controller does not let this node serve")

    async def leave(self) -> None:
        """Hand over what this broker leads; return once it may stop, or nobody is left to ask."""
        if self._task is None or self._task.done() or self.broker_epoch == NOT_REGISTERED:
            return
        if not self._current_settings().flag("controlled.shutdown.enable"):
            return
        self._leaving = True
        self._answered_at = self._clock.monotonic()
        self._wake()
        listening = asyncio.get_running_loop().create_task(self._stop_unheard())
        try:
            await self._in_time(self._may_stop, LEAVE_S_MAX, "the controller has not let this node go")
        except StartupError as problem:
            log.warning("stopping without a handover: %s", problem)
        finally:
            listening.cancel()

    async def _stop_unheard(self) -> None:
        """The last of a cluster has nobody to ask; where that can be seen, it need not wait long to know."""
        while not self._may_stop.done():
            await pause(self._clock, RETRY_S)
            answered_at = self._answered_at
            silence_s = self._clock.monotonic() - answered_at
            if silence_s < RETRY_S:
                continue
            is_over = silence_s > UNANSWERED_S_MAX or await self._quorum_is_gone()
            if is_over and self._answered_at == answered_at:
                log.info("stopping without a handover: no controller is left to ask")
                _done(self._may_stop)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def directory_failed(self, directory: UUID) -> None:
        """Nothing here can be relied on any more: others are to lead."""
        self._offline = (*self._offline, directory)
        if not self._serving.done():
            self._serving.set_exception(StartupError("The disk failed while the node started; it is offline"))
            self._serving.exception()
        self._wake()

    def read_only_changed(self, read_only: bool) -> None:
        """The disk takes no more writes, or takes them again: the controller hears of it now."""
        self._read_only = read_only
        self._wake()

    def image_changed(self, delta: "Delta", image: "Image") -> None:
        own = self._identity.node_id
        waits_to_serve = self._fenced and self._ready and image.offset >= self.broker_epoch != NOT_REGISTERED
        # Somebody who wants to stop may do so once everybody has said that they know.
        leaving = any(
            node_id != own
            and (broker := image.brokers.get(node_id)) is not None
            and broker.in_controlled_shutdown
            and not broker.fenced
            for node_id in delta.brokers_changed
        )
        if waits_to_serve or leaving:
            self._wake()

    # -- what is said to the controller ----------------------------------------------------

    async def _live(self) -> None:
        while True:
            try:
                if self.broker_epoch == NOT_REGISTERED:
                    pause = await self._register()
                else:
                    pause = await self._beat()
                self._answered_at = self._clock.monotonic()
            except PeerUnavailable as problem:
                log.debug("no controller has answered: %s", problem)
                pause = RETRY_S
            except Exception:
                log.exception("a heartbeat failed; there will be others")
                pause = RETRY_S
            await self._rest(pause)

    async def _register(self) -> float:
        answer = await self._channel.ask(
            ApiKey.BROKER_REGISTRATION, _registration(self._identity, self._previous_epoch), timeout_s=ASK_S_MAX
        )
        code = int(answer.error_code)
        if code == 0:
            self.broker_epoch = answer.broker_epoch
            self._fenced = True
            log.debug("registered with broker epoch %d", self.broker_epoch)
            _done(self._registered)
            return 0.0
        if code in _HOPELESS:
            problem = f"The cluster refuses node {self._identity.node_id}: {_HOPELESS[code]}"
            log.error(problem)
            if not self._registered.done():
                self._registered.set_exception(StartupError(problem))
            return ASK_S_MAX
        if code == DuplicateBrokerRegistration.code:
            log.warning("another process is registered as node %d; trying again", self._identity.node_id)
        return RETRY_S

    async def _beat(self) -> float:
        answer = await self._channel.ask(ApiKey.BROKER_HEARTBEAT, self._heartbeat(), timeout_s=ASK_S_MAX)
        code = int(answer.error_code)
        if code in (StaleBrokerEpoch.code, BrokerIdNotRegistered.code):
            if self._leaving:
                _done(self._may_stop)
                return RETRY_S
            log.warning("the controller does not know broker epoch %d; registering again", self.broker_epoch)
            self._previous_epoch, self.broker_epoch = self.broker_epoch, NOT_REGISTERED
            self._fenced = True
            return 0.0
        if code != 0:
            return RETRY_S
        if answer.is_fenced and not self._fenced and not self._leaving:
            log.warning("the controller has fenced this broker")
        self._fenced = answer.is_fenced
        if not self._fenced:
            _done(self._serving)
            if not self._told_controller and not self._leaving:
                await self._tell_controller()
        if answer.should_shut_down:
            _done(self._may_stop)
        if self._leaving:
            # What was asked for with the first has happened by the second, more often than not.
            first, self._asked_to_leave = not self._asked_to_leave, True
            return 0.0 if first else SOON_S
        waits = self._fenced and self._wants_to_serve
        return SOON_S if waits else self._current_settings().integer("broker.heartbeat.interval.ms") / 1000

    async def _tell_controller(self) -> None:
        """Say once that this process is a controller too: people and tools are shown it, and nothing waits for it."""
        answer = await self._channel.ask(
            ApiKey.CONTROLLER_REGISTRATION, _controller_registration(self._identity), timeout_s=ASK_S_MAX
        )
        self._told_controller = int(answer.error_code) == 0

    @property
    def _wants_to_serve(self) -> bool:
        return self._ready and not self._offline

    def _heartbeat(self) -> Any:
        from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest

        return BrokerHeartbeatRequest(
            broker_id=cast(Any, self._identity.node_id),
            broker_epoch=cast(Any, self.broker_epoch),
            current_metadata_offset=cast(Any, self._seen_offset()),
            want_fence=not self._wants_to_serve and not self._leaving,
            want_shut_down=self._leaving,
            offline_log_dirs=self._offline,
            # Kafka's word for folders that get no new replicas. The controller takes it for read-only.
            cordoned_log_dirs=self._identity.log_dirs if self._read_only else (),
        )

    # -- time ------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Send the next heartbeat now."""
        self._awake = True
        if self._alarm is not None:
            _done(self._alarm)

    async def _rest(self, seconds: float) -> None:
        if not self._awake and seconds > 0:
            self._alarm = alarm = asyncio.get_running_loop().create_future()
            timer = self._clock.call_later(seconds, lambda: _done(alarm))
            try:
                await alarm
            finally:
                timer.cancel()
                self._alarm = None
        elif seconds == 0:
            await asyncio.sleep(0)
        self._awake = False

    async def _in_time(self, future: "asyncio.Future[None]", seconds: float, otherwise: str) -> None:
        def over() -> None:
            if not future.done():
                future.set_exception(StartupError(f"Within {seconds:g} s {otherwise}"))

        timer: Timer = self._clock.call_later(seconds, over)
        try:
            await future
        finally:
            timer.cancel()


def _done(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _registration(identity: Identity, previous_epoch: int) -> Any:
    from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest, Feature, Listener

    return BrokerRegistrationRequest(
        broker_id=cast(Any, identity.node_id),
        cluster_id=identity.cluster_id,
        incarnation_id=identity.incarnation_id,
        listeners=_listeners(identity, Listener),
        features=_features(identity, Feature),
        rack=identity.rack,
        log_dirs=identity.log_dirs,
        previous_broker_epoch=cast(Any, previous_epoch),
    )


def _controller_registration(identity: Identity) -> Any:
    from kio.schema.controller_registration.v0.request import ControllerRegistrationRequest, Feature, Listener

    return ControllerRegistrationRequest(
        controller_id=cast(Any, identity.node_id),
        incarnation_id=identity.incarnation_id,
        zk_migration_ready=False,
        listeners=_listeners(identity, Listener),
        features=_features(identity, Feature),
    )


def _listeners(identity: Identity, listener: Any) -> tuple[Any, ...]:
    return tuple(
        listener(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
        for each in identity.end_points
    )


def _features(identity: Identity, feature: Any) -> tuple[Any, ...]:
    return tuple(
        feature(
            name=each.name,
            min_supported_version=each.min_supported_version,
            max_supported_version=each.max_supported_version,
        )
        for each in identity.features
    )
