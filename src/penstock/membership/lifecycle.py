"""The lifecycle of a broker: registers with the controller, sends heartbeats, hands over before it stops.

Calls the active controller through client/channel.py, in this process or another. Fenced until `ready`; registers
again when the controller no longer knows it. The table of states is in docs/internals/controller.md.
Refuses: StartupError when the cluster rejects this node, or no controller answers in time.
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
"""The pause between heartbeats of a broker that waits to be unfenced or to be allowed to stop."""
RETRY_S: Final = 0.2
ASK_S_MAX: Final = 4.0
LEAVE_S_MAX: Final = 30.0
UNANSWERED_S_MAX: Final = 3.0
"""A broker that wants to stop and gets no response for this long stops: there may be no controller left."""
LEASE_SHARE: Final = 2 / 3
"""The part of the session timeout for which a heartbeat counts. Less than all of it, because a controller that has lost
the quorum may answer for some seconds after another one has begun new sessions."""

_REJECTIONS: Final = {
    InconsistentClusterId.code: "it belongs to another cluster",
    InvalidRegistration.code: "its data folder is registered for another node",
    UnsupportedVersion.code: "it does not support the features of this cluster",
}
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identity of this process; the incarnation id is new with every start."""

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
        """Create the lifecycle; `quorum_is_gone` returns whether no controller can ever answer again."""
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
        self._requested_shutdown = False
        self._controller_registered = not identity.is_controller
        self._offline: tuple[UUID, ...] = ()
        self._read_only = False
        self._answered_at = clock.monotonic()
        self._lease_ends_at = self._answered_at
        self._task: asyncio.Task[None] | None = None
        self._alarm: asyncio.Future[None] | None = None
        self._awake = False
        loop = asyncio.get_running_loop()
        self._registered: asyncio.Future[None] = loop.create_future()
        self._serving: asyncio.Future[None] = loop.create_future()
        self._may_stop: asyncio.Future[None] = loop.create_future()

    # -- called by the node ----------------------------------------------------------------

    async def register(self) -> None:
        """Start the heartbeats, and return when the controller has registered this process."""
        self._task = asyncio.get_running_loop().create_task(self._run())
        seconds = self._current_settings().integer("initial.broker.registration.timeout.ms") / 1000
        await self._in_time(
            self._registered,
            seconds,
            "No controller has registered this node",
            advice="; check that a majority of the voters is up",
        )

    async def serve(self) -> None:
        """Report that the logs are open, and return when the controller has unfenced this broker."""
        self._ready = True
        self._wake()
        seconds = self._current_settings().integer("initial.broker.registration.timeout.ms") / 1000
        await self._in_time(self._serving, seconds, "The controller has not unfenced this broker")

    async def leave(self) -> None:
        """Hand over this broker's partitions; return when it may stop, or no controller is left."""
        if self._task is None or self._task.done() or self.broker_epoch == NOT_REGISTERED:
            return
        if not self._current_settings().flag("controlled.shutdown.enable"):
            return
        self._leaving = True
        self._answered_at = self._clock.monotonic()
        self._wake()
        listening = asyncio.get_running_loop().create_task(self._stop_without_controller())
        try:
            await self._in_time(self._may_stop, LEAVE_S_MAX, "The controller has not allowed this broker to stop")
        except StartupError as problem:
            log.warning("stopping without a controlled shutdown: %s", problem)
        finally:
            listening.cancel()

    async def _stop_without_controller(self) -> None:
        """Allow the stop when no controller answers; sooner if the quorum is known to be lost, as on the last node."""
        while not self._may_stop.done():
            await pause(self._clock, RETRY_S)
            answered_at = self._answered_at
            silence_s = self._clock.monotonic() - answered_at
            if silence_s < RETRY_S:
                continue
            is_over = silence_s > UNANSWERED_S_MAX or await self._quorum_is_gone()
            if is_over and self._answered_at == answered_at:
                log.info("stopping without a controlled shutdown: no controller is left")
                _done(self._may_stop)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def has_lease(self) -> bool:
        """Return whether a heartbeat was answered so recently that no controller has fenced this broker for silence."""
        return self._clock.monotonic() < self._lease_ends_at

    def directory_failed(self, directory: UUID) -> None:
        """Report an offline log directory, so that other brokers become leaders."""
        self._offline = (*self._offline, directory)
        if not self._serving.done():
            self._serving.set_exception(StartupError("The disk failed during startup; the node is offline"))
            self._serving.exception()
        self._wake()

    def read_only_changed(self, read_only: bool) -> None:
        """Report to the controller that the disk rejects writes, or accepts them again."""
        self._read_only = read_only
        self._wake()

    def image_changed(self, delta: "Delta", image: "Image") -> None:
        own = self._identity.node_id
        waits_to_serve = self._fenced and self._ready and image.offset >= self.broker_epoch != NOT_REGISTERED
        # A broker in controlled shutdown may stop when every broker has reported an image that shows it.
        leaving = any(
            node_id != own
            and (broker := image.brokers.get(node_id)) is not None
            and broker.in_controlled_shutdown
            and not broker.fenced
            for node_id in delta.brokers_changed
        )
        if waits_to_serve or leaving:
            self._wake()

    # -- requests to the controller --------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                if self.broker_epoch == NOT_REGISTERED:
                    pause = await self._register()
                else:
                    pause = await self._send_heartbeat()
                self._answered_at = self._clock.monotonic()
            except PeerUnavailable as problem:
                log.debug("cannot reach a controller: %s", problem)
                pause = RETRY_S
            except Exception:
                log.exception("a heartbeat failed and is retried")
                pause = RETRY_S
            await self._sleep(pause)

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
        if code in _REJECTIONS:
            problem = f"The cluster rejects node {self._identity.node_id}: {_REJECTIONS[code]}"
            log.error(problem)
            if not self._registered.done():
                self._registered.set_exception(StartupError(problem))
            return ASK_S_MAX
        if code == DuplicateBrokerRegistration.code:
            log.warning("another process is registered as node %d; retrying", self._identity.node_id)
        return RETRY_S

    async def _send_heartbeat(self) -> float:
        sent_at = self._clock.monotonic()
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
        lease_s = LEASE_SHARE * self._current_settings().integer("broker.session.timeout.ms") / 1000
        if not self._fenced:
            self._lease_ends_at = sent_at + lease_s
            _done(self._serving)
            if not self._controller_registered and not self._leaving:
                await self._register_controller()
        if answer.should_shut_down:
            _done(self._may_stop)
        if self._leaving:
            # By the second heartbeat the shutdown requested with the first is usually granted.
            first, self._requested_shutdown = not self._requested_shutdown, True
            return 0.0 if first else SOON_S
        waits = self._fenced and self._wants_to_serve
        if waits:
            return SOON_S
        # Twice per lease, so that a short session does not end it between two heartbeats.
        return min(self._current_settings().integer("broker.heartbeat.interval.ms") / 1000, lease_s / 2)

    async def _register_controller(self) -> None:
        """Register this process as a controller once; the registration is only informational."""
        answer = await self._channel.ask(
            ApiKey.CONTROLLER_REGISTRATION, _controller_registration(self._identity), timeout_s=ASK_S_MAX
        )
        self._controller_registered = int(answer.error_code) == 0

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
            # Kafka's name for folders that get no new replicas. The controller treats it as read-only.
            cordoned_log_dirs=self._identity.log_dirs if self._read_only else (),
        )

    # -- time ------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Send the next heartbeat now."""
        self._awake = True
        if self._alarm is not None:
            _done(self._alarm)

    async def _sleep(self, seconds: float) -> None:
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

    async def _in_time(self, future: "asyncio.Future[None]", seconds: float, problem: str, advice: str = "") -> None:
        def over() -> None:
            if not future.done():
                future.set_exception(StartupError(f"{problem} within {seconds:g} s{advice}"))

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
