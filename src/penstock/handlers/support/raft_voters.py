"""Code that AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter share. Goes to metadata/membership.py."""

from typing import Any, Final

from penstock.metadata.voters import Voter, VoterEndpoint
from penstock.model.ids import NodeId

CHANGE_S_MAX: Final = 30.0
"""How long a change of the voters may take if the request has no timeout."""


def voter_of(body: Any) -> Voter:
    endpoints = tuple(VoterEndpoint(name=each.name, host=each.host, port=each.port) for each in body.listeners)
    return Voter(id=NodeId(body.voter_id), directory_id=body.voter_directory_id, endpoints=endpoints)
