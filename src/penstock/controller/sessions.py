"""The sessions of brokers: the volatile state of the active controller.

Pure: the monotonic time is an argument. A new controller calls `begin`, which gives every
unfenced broker a full session without a heartbeat. Used by heartbeats.py and broker_monitor.py. Refuses nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from penstock.metadata.image import BrokerImage, Image
from penstock.model.ids import NodeId

UNKNOWN_OFFSET: Final = -1


@dataclass(slots=True)
class _Session:
    broker_epoch: int
    touched_at: float
    has_heartbeat: bool
    metadata_offset: int = UNKNOWN_OFFSET
    leaving_since: int | None = None
    """The metadata offset at which the broker began its controlled shutdown or led nothing any more."""


class Sessions:
    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._sessions: dict[NodeId, _Session] = {}

    def begin(self, brokers: Iterable[BrokerImage], now: float) -> None:
        """Start over; every unfenced broker gets a full session from now."""
        self._sessions = {
            broker.node_id: _Session(broker.epoch, now, has_heartbeat=False) for broker in brokers if not broker.fenced
        }

    def touch(self, node_id: NodeId, broker_epoch: int, now: float, *, metadata_offset: int = UNKNOWN_OFFSET) -> None:
        """Extend the session after a heartbeat or a registration with this broker epoch."""
        session = self._sessions.get(node_id)
        if session is None or session.broker_epoch != broker_epoch:
            self._sessions[node_id] = _Session(broker_epoch, now, has_heartbeat=True, metadata_offset=metadata_offset)
            return
        session.touched_at = now
        session.has_heartbeat = True
        session.metadata_offset = metadata_offset

    def extend_all(self, seconds: float) -> None:
        """Extend all sessions by the time in which this controller did not run: unread heartbeats may be waiting."""
        for session in self._sessions.values():
            session.touched_at += seconds

    def forget(self, node_id: NodeId) -> None:
        self._sessions.pop(node_id, None)

    def is_alive(self, node_id: NodeId, now: float) -> bool:
        """Return whether this controller has recently received a heartbeat of the broker."""
        session = self._sessions.get(node_id)
        return session is not None and session.has_heartbeat and now - session.touched_at <= self._timeout_s

    def expired(self, image: Image, now: float) -> list[NodeId]:
        """Return the unfenced brokers whose session has expired. A broker without a session gets a new one."""
        over = []
        for node_id in sorted(image.brokers):
            broker = image.brokers[node_id]
            if broker.fenced:
                continue
            session = self._sessions.get(node_id)
            if session is None or session.broker_epoch != broker.epoch:
                self._sessions[node_id] = _Session(broker.epoch, now, has_heartbeat=False)
            elif now - session.touched_at > self._timeout_s:
                over.append(node_id)
        return over

    def record_shutdown(self, node_id: NodeId, offset: int) -> None:
        """Record the shutdown of a broker, which may stop when every broker has seen the metadata at this offset."""
        session = self._sessions.get(node_id)
        if session is not None and session.leaving_since is None:
            session.leaving_since = offset

    def leaving_since(self, node_id: NodeId) -> int | None:
        session = self._sessions.get(node_id)
        return None if session is None else session.leaving_since

    def least_offset_seen(self, image: Image) -> int | None:
        """Return the metadata offset that every unfenced broker has seen; None if there is none."""
        seen = [
            UNKNOWN_OFFSET if (session := self._sessions.get(broker.node_id)) is None else session.metadata_offset
            for broker in image.brokers.values()
            if not broker.fenced and not broker.in_controlled_shutdown
        ]
        return min(seen) if seen else None
