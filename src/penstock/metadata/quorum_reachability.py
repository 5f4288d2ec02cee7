"""Whether the quorum can still be had at all: for a node that wants to stop and hears no controller.

A voter is gone when its machine says that nobody listens at its address. Silence is no proof: the voter may be slow,
or the network may. Goes to `client/peers.py`. Refuses nothing.
"""

import asyncio
from collections.abc import Collection

from penstock.client.interfaces import PeerGone, Peers, PeerUnavailable
from penstock.model.ids import NodeId
from penstock.raft.majority import is_majority


async def majority_is_gone(peers: Peers, voters: Collection[NodeId], *, own: NodeId, timeout_s: float) -> bool:
    """Whether so many of the other voters are gone that those who may be left cannot elect a controller."""
    # In their order: the simulator must see the same one every time.
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
