"""Taking voters in and out of the quorum, one at a time (KIP-853).

A node that is to vote first follows as an observer; it is taken in once it has all that the leader had when it was
asked, so that a majority never waits for a newcomer. Called by handlers on the active controller; goes to `quorum.py`.
Refuses: NotController, DuplicateVoter, VoterNotFound, InvalidRequest, RequestTimedOut.
"""

from dataclasses import replace
from uuid import UUID

from penstock.client.channel import pause
from penstock.metadata.quorum import Quorum
from penstock.metadata.voters import Voter, VoterSet
from penstock.model.errors import (
    DuplicateVoter,
    InvalidRequest,
    NotController,
    RequestTimedOut,
    VoterNotFound,
)
from penstock.model.ids import NodeId
from penstock.ports.clock import Clock
from penstock.raft.roles import Leader

LOOK_AGAIN_S = 0.05


def known_voters(quorum: Quorum) -> VoterSet:
    """Return the voters that count now. This node knows its own addresses even if nobody has configured them."""
    return tuple(
        replace(voter, endpoints=quorum.place.endpoints())
        if voter.id == quorum.node_id and not voter.endpoints
        else voter
        for voter in quorum.book.present
    )


async def add_voter(quorum: Quorum, clock: Clock, voter: Voter, *, timeout_s: float) -> None:
    """Return once the node votes; RequestTimedOut if it does not catch up in time."""
    deadline = clock.monotonic() + timeout_s
    if not voter.endpoints:
        raise InvalidRequest("A voter needs an address for the other voters.")
    await _free_to_change(quorum, clock, deadline)
    if any(known.id == voter.id for known in known_voters(quorum)):
        raise DuplicateVoter(f"Node {voter.id} votes already.")
    target = quorum.core.log.end_offset
    while not _has_reached(quorum, voter.id, target):
        await _wait(quorum, clock, deadline)
    await _free_to_change(quorum, clock, deadline)
    await quorum.change_voters(_sorted((*known_voters(quorum), voter)))


async def remove_voter(
    quorum: Quorum, clock: Clock, node: NodeId, directory_id: UUID | None, *, timeout_s: float
) -> None:
    """Return once the node votes no longer. A leader that takes itself out makes room afterwards."""
    await _free_to_change(quorum, clock, clock.monotonic() + timeout_s)
    present = known_voters(quorum)
    found = next((voter for voter in present if voter.id == node), None)
    if found is None or (None not in (found.directory_id, directory_id) and found.directory_id != directory_id):
        raise VoterNotFound(f"Node {node} with that folder is not a voter.")
    if len(present) == 1:
        raise InvalidRequest("The last voter cannot be taken out.")
    await quorum.change_voters(tuple(voter for voter in present if voter.id != node))


async def update_voter(quorum: Quorum, clock: Clock, voter: Voter, *, timeout_s: float) -> None:
    """Return once the new addresses of a voter are known to all."""
    await _free_to_change(quorum, clock, clock.monotonic() + timeout_s)
    present = known_voters(quorum)
    if all(known.id != voter.id for known in present):
        raise VoterNotFound(f"Node {voter.id} is not a voter.")
    if voter in present:
        return
    await quorum.change_voters(_sorted((*(known for known in present if known.id != voter.id), voter)))


async def name_voters(quorum: Quorum, clock: Clock, *, timeout_s: float) -> None:
    """Return once the log names the voters, which is kraft.version 1; from then on the configuration is not asked."""
    await _free_to_change(quorum, clock, clock.monotonic() + timeout_s)
    if quorum.book.kraft_version == 0:
        await quorum.change_voters(known_voters(quorum))


async def _free_to_change(quorum: Quorum, clock: Clock, deadline: float) -> None:
    """One change at a time: wait for the one under way."""
    while not quorum.is_active or not quorum.core.may_change_voters:
        await _wait(quorum, clock, deadline)


async def _wait(quorum: Quorum, clock: Clock, deadline: float) -> None:
    if not quorum.is_active:
        raise NotController
    if clock.monotonic() >= deadline:
        raise RequestTimedOut
    await pause(clock, LOOK_AGAIN_S)


def _has_reached(quorum: Quorum, node: NodeId, target: int) -> bool:
    role = quorum.core.role
    progress = role.progress.get(node) if isinstance(role, Leader) else None
    return progress is not None and progress.end >= target


def _sorted(voters: VoterSet) -> VoterSet:
    return tuple(sorted(voters, key=lambda voter: voter.id))
