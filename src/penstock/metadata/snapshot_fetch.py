"""The fetch of a leader's snapshot in pieces.

Driven by `quorum.py` while the core needs a snapshot. Calls `client/peers.py`. A piece that does not arrive is
requested again; a snapshot that the leader has deleted is abandoned: the next fetch response names a newer one.
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


class SnapshotUnavailable(Exception):
    """The leader no longer has the snapshot, or no longer leads."""


class SnapshotFetch:
    def __init__(
        self, *, identity: NodeIdentity, peers: Peers, clock: Clock, piece_bytes_max: int, timeout_s: float
    ) -> None:
        self._identity = identity
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
        is_needed: Callable[[], bool],
        on_piece: Callable[[], None],
    ) -> tuple[Snapshot, bytes] | None:
        """Return the snapshot and its bytes, or None when it is no longer needed. Raises SnapshotUnavailable."""
        content = bytearray()
        while is_needed():
            try:
                size, piece = await self._piece(end, leader, epoch, len(content))
            except PeerUnavailable as problem:
                logger.debug("cannot fetch a piece of the snapshot at %d: %s", end.end_offset, problem)
                await pause(self._clock, RETRY_S)
                continue
            on_piece()
            content += piece
            if len(content) >= size:
                return _parse(bytes(content), end), bytes(content)
            if not piece:
                raise SnapshotUnavailable
        return None

    async def _piece(self, end: EpochEnd, leader: NodeId, epoch: LeaderEpoch, position: int) -> tuple[int, bytes]:
        from penstock.metadata import snapshot_wire  # see messenger.py

        key, request = snapshot_wire.write_request(
            self._identity, end, epoch=epoch, position=position, bytes_max=self._piece_bytes_max
        )
        answer: Any = await self._peers.ask(leader, key, request, timeout_s=self._timeout_s, purpose=PURPOSE)
        found = snapshot_wire.read_answer(answer, position)
        if found is None:
            raise SnapshotUnavailable
        return found


def _parse(content: bytes, end: EpochEnd) -> Snapshot:
    try:
        return read(content, end)
    except (Refusal, Corruption) as problem:
        logger.warning("the leader's snapshot at %d is corrupt: %s", end.end_offset, problem)
        raise SnapshotUnavailable from problem
