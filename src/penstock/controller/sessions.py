"""Which brokers are heard of: the soft state that only the active controller keeps.

Pure: time comes in as a number of the monotonic clock. A new controller begins with `begin`, which gives every
unfenced broker a whole session, unheard. Goes nowhere; heartbeats.py and monitor.py ask it. Refuses nothing.
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
    heard: bool
    metadata_offset: int = UNKNOWN_OFFSET
    leaving_since: int | None = None
    """The offset of the metadata at which this broker led nothing any more or began to hand over."""


class Sessions:
    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._sessions: dict[NodeId, _Session] = {}

    def begin(self, brokers: Iterable[BrokerImage], now: float) -> None:
        """Forget everything; every unfenced broker has a whole session from now."""
        self._sessions = {
            broker.node_id: _Session(broker.epoch, now, heard=False) for broker in brokers if not broker.fenced
        }

    def touch(self, node_id: NodeId, broker_epoch: int, now: float, *, metadata_offset: int = UNKNOWN_OFFSET) -> None:
        """A heartbeat of the broker's present registration has come, or the registration itself."""
        session = self._sessions.get(node_id)
        if session is None or session.broker_epoch != broker_epoch:
            self._sessions[node_id] = _Session(broker_epoch, now, heard=True, metadata_offset=metadata_offset)
            return
        session.touched_at = now
        session.heard = True
        session.metadata_offset = metadata_offset

    def forgive(self, seconds: float) -> None:
        """This controller did not run for so long: what brokers said meanwhile is still to be heard."""
        for session in self._sessions.values():
            session.touched_at += seconds

    def forget(self, node_id: NodeId) -> None:
        self._sessions.pop(node_id, None)

    def is_heard(self, node_id: NodeId, now: float) -> bool:
        """Whether a process of this id has lately been heard by this controller."""
        session = self._sessions.get(node_id)
        return session is not None and session.heard and now - session.touched_at <= self._timeout_s

    def expired(self, image: Image, now: float) -> list[NodeId]:
        """The unfenced brokers whose session is over. One without a session was missed, and gets one now."""
        over = []
        for node_id in sorted(image.brokers):
            broker = image.brokers[node_id]
            if broker.fenced:
                continue
            session = self._sessions.get(node_id)
            if session is None or session.broker_epoch != broker.epoch:
                self._sessions[node_id] = _Session(broker.epoch, now, heard=False)
            elif now - session.touched_at > self._timeout_s:
                over.append(node_id)
        return over

    def note_leaving(self, node_id: NodeId, offset: int) -> None:
        """The broker hands over; it may stop once everybody has seen the metadata at this offset."""
        session = self._sessions.get(node_id)
        if session is not None and session.leaving_since is None:
            session.leaving_since = offset

    def leaving_since(self, node_id: NodeId) -> int | None:
        session = self._sessions.get(node_id)
        return None if session is None else session.leaving_since

    def least_offset_seen(self, image: Image) -> int | None:
        """The metadata offset that every serving broker has seen; None if there is no serving broker."""
        seen = [
            UNKNOWN_OFFSET if (session := self._sessions.get(broker.node_id)) is None else session.metadata_offset
            for broker in image.brokers.values()
            if not broker.fenced and not broker.in_controlled_shutdown
        ]
        return min(seen) if seen else None
