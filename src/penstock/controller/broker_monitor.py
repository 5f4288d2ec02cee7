"""The supervision of brokers while this node is the active controller.

Owns the sessions: handles registrations and heartbeats, fences brokers that are silent for too long and, immediately,
brokers whose process has exited; moves leadership back to preferred replicas and removes expired tokens periodically.
A broken connection is
a hint, not proof: the controller then probes the broker's address. Calls controller.py and client/. Refuses:
NotController, and what heartbeats.py and brokers.py refuse.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from penstock.client.channel import pause
from penstock.client.interfaces import PeerGone, PeerUnavailable
from penstock.controller.brokers import Registration, check_broker_epoch, deciding_fencing, deciding_registration
from penstock.controller.elections import decide_balance
from penstock.controller.heartbeats import Heartbeat, HeartbeatReply, deciding_heartbeat
from penstock.controller.leaders import Rules
from penstock.controller.sessions import Sessions
from penstock.controller.settings import decide_first_settings
from penstock.controller.token_sweeper import TokenSweeper
from penstock.model.errors import NotController, Refusal
from penstock.model.ids import NodeId
from penstock.model.job import first_slice

if TYPE_CHECKING:
    from penstock.client.interfaces import Peers
    from penstock.config.settings import BrokerSettings
    from penstock.controller.controller import Controller
    from penstock.controller.decision import ControllerDecision
    from penstock.metadata.image import BrokerImage, Image
    from penstock.model.job import Job
    from penstock.ports.clock import Clock, Timer

TICK_S: Final = 0.25
LATE_S: Final = 1.0
"""A tick later than this shows that this process was delayed, for which no broker must be fenced."""
PROBE_S_MAX: Final = 2.0
PROBE_AGAIN_S: Final = 0.01
BALANCE_AGAIN_S: Final = 1.0

log = logging.getLogger(__name__)


class BrokerMonitor:
    def __init__(
        self,
        *,
        node_id: NodeId,
        cluster_id: str,
        controller: "Controller",
        peers: "Peers",
        clock: "Clock",
        current_settings: "Callable[[], BrokerSettings]",
    ) -> None:
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._controller = controller
        self._peers = peers
        self._clock = clock
        self._current_settings = current_settings
        self._sessions = self._new_sessions()
        self._connections: dict[object, NodeId] = {}
        self._probes: dict[NodeId, asyncio.Task[None]] = {}
        self._fenced: set[NodeId] = set()
        self._active = False
        self._ticked_at = 0.0
        self._tick_timer: Timer | None = None
        self._balance_timer: Timer | None = None
        self._token_sweeper = TokenSweeper(controller, clock, current_settings)
        # A dict for its order, so that a simulated run is deterministic.
        self._tasks: dict[asyncio.Task[None], None] = {}

    @property
    def rules(self) -> Rules:
        return Rules(self._current_settings())

    def leadership_changed(self, active: bool, _epoch: int) -> None:
        """Start or stop the supervision when this node becomes or stops being the active controller."""
        self.stop()
        if not active:
            return
        self._active = True
        self._sessions = self._new_sessions()
        self._ticked_at = self._clock.monotonic()
        self._sessions.begin(self._controller.image.brokers.values(), self._ticked_at)
        self._spawn(self._first_settings())
        # Brokers that exited together with the previous controller broke no connection to this one.
        self._tick()
        self._set_balance_timer(self._current_settings().integer("leader.imbalance.check.interval.seconds"))
        self._token_sweeper.start()

    def stop(self) -> None:
        self._active = False
        self._connections.clear()
        self._probes.clear()
        self._fenced.clear()
        self._token_sweeper.stop()
        for timer in (self._tick_timer, self._balance_timer):
            if timer is not None:
                timer.cancel()
        for task in list(self._tasks):
            task.cancel()

    # -- requests of brokers ---------------------------------------------------------------

    async def register(self, registration: Registration, connection: object) -> int:
        """Register a process, fenced, and return its broker epoch."""
        self._check_active()

        def decide(image: "Image") -> "Job[ControllerDecision[int]]":
            return deciding_registration(
                image,
                registration,
                cluster_id=self._cluster_id,
                rules=self.rules,
                has_live_process=self._has_live_process(image.brokers.get(registration.node_id), registration),
            )

        epoch = await self._controller.run(decide)
        self._sessions.touch(registration.node_id, epoch, self._clock.monotonic())
        self._record_connection(connection, registration.node_id)
        self._log_state(registration.node_id, f"registered with epoch {epoch}")
        return epoch

    async def heartbeat(self, heartbeat: Heartbeat, connection: object) -> HeartbeatReply:
        self._check_active()
        node_id = heartbeat.node_id
        check_broker_epoch(self._controller.image, node_id, heartbeat.broker_epoch)
        # Before the decision, which may have to wait: a busy controller must not take that for silence.
        self._sessions.touch(
            node_id, heartbeat.broker_epoch, self._clock.monotonic(), metadata_offset=heartbeat.metadata_offset
        )
        self._record_connection(connection, node_id)

        seen = self._controller.image
        # Most heartbeats change nothing, and need not wait for their turn.
        decision = first_slice(deciding_heartbeat(seen, heartbeat, sessions=self._sessions, rules=self.rules))

        def decide(image: "Image") -> "ControllerDecision[HeartbeatReply] | Job[ControllerDecision[HeartbeatReply]]":
            if image is seen and decision is not None:
                return decision
            return deciding_heartbeat(image, heartbeat, sessions=self._sessions, rules=self.rules)

        unchanged = None if decision is None or decision.records else decision
        reply = await self._controller.run(decide) if unchanged is None else unchanged.reply
        if reply.leaving:
            self._sessions.record_shutdown(node_id, self._controller.image.offset)
        if unchanged is None:
            self._log_state(node_id, _state(reply))
        return reply

    def connection_lost(self, connection: object) -> None:
        """Probe the broker whose heartbeats came over a connection that is now closed."""
        node_id = self._connections.pop(connection, None)
        if node_id is not None and self._active and node_id not in self._connections.values():
            running = self._probes.pop(node_id, None)
            if running is not None:
                running.cancel()
            self._probe(node_id)

    def _log_state(self, node_id: NodeId, what: str) -> None:
        # A broker in this process is started and stopped with it, so its state is known.
        log.log(logging.DEBUG if node_id == self._node_id else logging.INFO, "broker %d is %s", node_id, what)

    def _record_connection(self, connection: object, node_id: NodeId) -> None:
        if self._active:
            self._connections[connection] = node_id

    def _has_live_process(self, current: "BrokerImage | None", registration: Registration) -> bool:
        if current is None or current.fenced or not self._sessions.is_alive(current.node_id, self._clock.monotonic()):
            return False
        # Brokers bind their ports before they register, so the process at the same address must have exited.
        return _addresses(current.end_points) != _addresses(registration.end_points)

    def _check_active(self) -> None:
        if not self._active or not self._controller.is_active:
            raise NotController

    def _new_sessions(self) -> Sessions:
        return Sessions(self._current_settings().integer("broker.session.timeout.ms") / 1000)

    # -- timers ----------------------------------------------------------------------------

    def _tick(self) -> None:
        now = self._clock.monotonic()
        late = now - self._ticked_at - TICK_S
        if late > LATE_S:
            self._sessions.extend_all(late)
        self._ticked_at = now
        self._tick_timer = self._clock.call_later(TICK_S, self._tick)
        image = self._controller.image
        for node_id in self._sessions.expired(image, now):
            self._fence(image.brokers[node_id], "its session has expired")
        carried = set(self._connections.values())
        for broker in image.brokers.values():
            if not broker.fenced and broker.node_id not in carried:
                self._probe(broker.node_id)

    def _probe(self, node_id: NodeId) -> None:
        broker = self._controller.image.brokers.get(node_id)
        if broker is None or broker.fenced or node_id == self._node_id:
            return
        running = self._probes.get(node_id)
        if running is None or running.done():
            self._probes[node_id] = self._spawn(self._probe_until_heartbeat(broker))

    async def _probe_until_heartbeat(self, broker: "BrokerImage") -> None:
        """Probe the broker's address until a heartbeat arrives, or its machine refuses the connection.

        A process that is being killed may accept connections for some milliseconds, so the first retries come soon.
        """
        pause_s = PROBE_AGAIN_S
        while self._is_silent(broker):
            try:
                await self._peers.probe(broker.node_id, timeout_s=PROBE_S_MAX)
            except PeerGone:
                self._fence(broker, "its address refuses connections")
                return
            except PeerUnavailable:
                pass  # Silence is not proof: the session timeout decides.
            await pause(self._clock, pause_s)
            pause_s = min(2 * pause_s, TICK_S)

    def _is_silent(self, broker: "BrokerImage") -> bool:
        """Return whether this process is unfenced, but no open connection carries its heartbeats."""
        now = self._controller.image.brokers.get(broker.node_id)
        in_service = now is not None and now.epoch == broker.epoch and not now.fenced
        return in_service and broker.node_id not in self._connections.values()

    def _fence(self, broker: "BrokerImage", why: str) -> None:
        if broker.node_id not in self._fenced:
            self._fenced.add(broker.node_id)
            self._spawn(self._fence_now(broker, why))

    async def _fence_now(self, broker: "BrokerImage", why: str) -> None:
        def decide(image: "Image") -> "Job[ControllerDecision[bool]]":
            return deciding_fencing(image, broker.node_id, epoch=broker.epoch, rules=self.rules)

        try:
            if await self._controller.run(decide):
                log.warning("fenced broker %d: %s", broker.node_id, why)
        except Refusal as refusal:
            log.warning("cannot fence broker %d now: %s", broker.node_id, refusal)
        finally:
            self._fenced.discard(broker.node_id)

    async def _first_settings(self) -> None:
        try:
            await self._controller.run(lambda image: decide_first_settings(image, self._current_settings()))
        except Refusal as refusal:
            log.warning("cannot write the initial settings of the cluster now: %s", refusal)

    def _set_balance_timer(self, seconds: float) -> None:
        self._balance_timer = self._clock.call_later(seconds, self._begin_balance)

    def _begin_balance(self) -> None:
        self._spawn(self._balance())

    async def _balance(self) -> None:
        settings = self._current_settings()
        more = False
        try:
            if settings.flag("auto.leader.rebalance.enable"):
                more = await self._controller.run(lambda image: decide_balance(image, self.rules))
        except Refusal as refusal:
            log.warning("cannot rebalance leaders now: %s", refusal)
        if self._active:
            self._set_balance_timer(
                BALANCE_AGAIN_S if more else settings.integer("leader.imbalance.check.interval.seconds")
            )

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return task


def _addresses(end_points: Any) -> list[tuple[str, int]]:
    return sorted((end_point.host, end_point.port) for end_point in end_points)


def _state(reply: HeartbeatReply) -> str:
    if reply.should_shut_down:
        return "fenced and may stop"
    return "leaving" if reply.leaving else "fenced" if reply.is_fenced else "serving"
