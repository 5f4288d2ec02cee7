"""Brings a leader's snapshot here, piece by piece, and hands it over once it is whole.

Driven by `quorum.py` while the core wants a snapshot. Goes to `client/peers.py`. A piece that does not come is asked
for again; a snapshot that the leader has dropped meanwhile is given up, and the next fetch names a newer one.
"""

import logging
from collections.abc import Callable
from typing import Any

from penstock.client.channel import pause
from penstock.client.interfaces import Peers, PeerUnavailable
from penstock.metadata.identity import NodeIdentity
from penstock.metadata.snapshot import Snapshot, read
from penstock.model.errors import Corruption, Refusal
from penstock.model.ids import LeaderEpoch, NodeId
from penstock.ports.clock import Clock
from penstock.raft.messages import EpochEnd

logger = logging.getLogger(__name__)

PURPOSE = "quorum-snapshot"
RETRY_S = 0.1


class SnapshotGone(Exception):
    """The leader has no such snapshot any more, or is no leader."""


class SnapshotFetch:
    def __init__(
        self, *, place: NodeIdentity, peers: Peers, clock: Clock, piece_bytes_max: int, timeout_s: float
    ) -> None:
        self._place = place
        self._peers = peers
        self._clock = clock
        self._piece_bytes_max = piece_bytes_max
        self._timeout_s = timeout_s

    async def load(
        self,
        end: EpochEnd,
        leader: NodeId,
        epoch: LeaderEpoch,
        *,
        is_wanted: Callable[[], bool],
        has_come: Callable[[], None],
    ) -> tuple[Snapshot, bytes] | None:
        """The snapshot and its bytes; None when it is no longer wanted. Raises SnapshotGone."""
        content = bytearray()
        while is_wanted():
            try:
                size, piece = await self._piece(end, leader, epoch, len(content))
            except PeerUnavailable as problem:
                logger.debug("a piece of the snapshot at %d does not come: %s", end.end_offset, problem)
                await pause(self._clock, RETRY_S)
                continue
            has_come()
            content += piece
            if len(content) >= size:
                return _whole(bytes(content), end), bytes(content)
            if not piece:
                raise SnapshotGone
        return None

    async def _piece(self, end: EpochEnd, leader: NodeId, epoch: LeaderEpoch, position: int) -> tuple[int, bytes]:
        from penstock.metadata import snapshot_wire  # see messenger.py

        key, request = snapshot_wire.write_request(
            self._place, end, epoch=epoch, position=position, bytes_max=self._piece_bytes_max
        )
        answer: Any = await self._peers.ask(leader, key, request, timeout_s=self._timeout_s, purpose=PURPOSE)
        found = snapshot_wire.read_answer(answer, position)
        if found is None:
            raise SnapshotGone
        return found


def _whole(content: bytes, end: EpochEnd) -> Snapshot:
    try:
        return read(content, end)
    except (Refusal, Corruption) as problem:
        logger.warning("the leader's snapshot at %d is not whole: %s", end.end_offset, problem)
        raise SnapshotGone from problem
