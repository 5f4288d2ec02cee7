"""Addition and removal of voters, one at a time (KIP-853).

A new voter first follows as an observer; it is added when it has everything that the leader had at the time of the
request, so that a majority never waits for it. Called by handlers on the active controller; calls `quorum.py`.
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
    """Return the current voters, with this node's own addresses even if they are not configured."""
    return tuple(
        replace(voter, endpoints=quorum.identity.endpoints())
        if voter.id == quorum.node_id and not voter.endpoints
        else voter
        for voter in quorum.voter_registry.present
    )


async def add_voter(quorum: Quorum, clock: Clock, voter: Voter, *, timeout_s: float) -> None:
    """Add a voter and return when that is committed; RequestTimedOut if it does not catch up in time."""
    deadline = clock.monotonic() + timeout_s
    if not voter.endpoints:
        raise InvalidRequest("A voter needs an address for the other voters.")
    await _wait_until_changeable(quorum, clock, deadline)
    if any(known.id == voter.id for known in known_voters(quorum)):
        raise DuplicateVoter(f"Node {voter.id} is already a voter.")
    target = quorum.core.log.end_offset
    while not _has_reached(quorum, voter, target):
        await _wait(quorum, clock, deadline)
    await _wait_until_changeable(quorum, clock, deadline)
    await quorum.change_voters(_sorted((*known_voters(quorum), voter)))


async def remove_voter(
    quorum: Quorum, clock: Clock, node: NodeId, directory_id: UUID | None, *, timeout_s: float
) -> None:
    """Remove a voter and return when that is committed. A leader that removes itself then resigns."""
    await _wait_until_changeable(quorum, clock, clock.monotonic() + timeout_s)
    current = known_voters(quorum)
    _check_voter(current, node, directory_id)
    if len(current) == 1:
        raise InvalidRequest("The last voter cannot be removed.")
    await quorum.change_voters(tuple(voter for voter in current if voter.id != node))


async def update_voter(quorum: Quorum, clock: Clock, voter: Voter, *, timeout_s: float) -> None:
    """Change the addresses of a voter and return when that is committed."""
    await _wait_until_changeable(quorum, clock, clock.monotonic() + timeout_s)
    current = known_voters(quorum)
    _check_voter(current, voter.id, voter.directory_id)
    if voter in current:
        return
    await quorum.change_voters(_sorted((*(known for known in current if known.id != voter.id), voter)))


async def name_voters(quorum: Quorum, clock: Clock, *, timeout_s: float) -> None:
    """Write the voters to the log, which is kraft.version 1; the configured voters are ignored from then on."""
    await _wait_until_changeable(quorum, clock, clock.monotonic() + timeout_s)
    if quorum.voter_registry.kraft_version == 0:
        await quorum.change_voters(known_voters(quorum))


def _check_voter(current: VoterSet, node: NodeId, directory_id: UUID | None) -> None:
    """Raise VoterNotFound unless the node is a voter with that directory, as far as both are known."""
    found = next((voter for voter in current if voter.id == node), None)
    if found is None or (None not in (found.directory_id, directory_id) and found.directory_id != directory_id):
        raise VoterNotFound(f"Node {node} with this directory id is not a voter.")


async def _wait_until_changeable(quorum: Quorum, clock: Clock, deadline: float) -> None:
    """Wait until no other change of voters is in progress."""
    while not quorum.is_active or not quorum.core.may_change_voters:
        await _wait(quorum, clock, deadline)


async def _wait(quorum: Quorum, clock: Clock, deadline: float) -> None:
    if not quorum.is_active:
        raise NotController
    if clock.monotonic() >= deadline:
        raise RequestTimedOut
    await pause(clock, LOOK_AGAIN_S)


def _has_reached(quorum: Quorum, voter: Voter, target: int) -> bool:
    role = quorum.core.role
    progress = role.progress.get(voter.id) if isinstance(role, Leader) else None
    if progress is None or progress.end < target:
        return False
    # A voter is removed by its id and directory, so a wrong one must not be recorded.
    return None in (voter.directory_id, progress.disk) or voter.directory_id == progress.disk


def _sorted(voters: VoterSet) -> VoterSet:
    return tuple(sorted(voters, key=lambda voter: voter.id))
