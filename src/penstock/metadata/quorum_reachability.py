"""A check whether the quorum is lost, for a node that wants to stop and cannot reach a controller.

A voter is gone when its machine refuses connections to its address. Silence proves nothing: the voter or
the network may be slow. Calls `client/peers.py`. Refuses nothing.
"""

import asyncio
from collections.abc import Collection

from penstock.client.interfaces import PeerGone, Peers, PeerUnavailable
from penstock.model.ids import NodeId
from penstock.raft.majority import is_majority


async def majority_is_gone(peers: Peers, voters: Collection[NodeId], *, own: NodeId, timeout_s: float) -> bool:
    """Return whether so many of the other voters are gone that the rest cannot elect a controller."""
    # Sorted, so that a simulated run is deterministic.
    others = [voter for voter in sorted(voters) if voter != own]
    async with asyncio.TaskGroup() as group:
        probes = {voter: group.create_task(_is_gone(peers, voter, timeout_s)) for voter in others}
    lost = {voter for voter, probe in probes.items() if probe.result()}
    return not is_majority(set(voters) - lost, voters)


async def _is_gone(peers: Peers, voter: NodeId, timeout_s: float) -> bool:
    try:
        await peers.probe(voter, timeout_s=timeout_s)
    except PeerGone:
        return True
    except PeerUnavailable:
        pass
    return False
