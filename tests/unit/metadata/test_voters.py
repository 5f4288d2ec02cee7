"""The voters and their addresses."""

from uuid import UUID

import pytest

from penstock.config.settings import BrokerSettings
from penstock.metadata import control
from penstock.metadata.voters import Voter, VoterEndpoint, VoterRegistry, configured_voters
from penstock.model.errors import StartupError
from penstock.model.ids import NodeId, Offset


def voter(node: int) -> Voter:
    endpoint = VoterEndpoint(name="CONTROLLER", host=f"host{node}", port=9000 + node)
    return Voter(id=NodeId(node), directory_id=UUID(int=node), endpoints=(endpoint,))


def configured(**options: str) -> dict[NodeId, tuple[str, int] | None]:
    settings = BrokerSettings({name.replace("_", "."): text for name, text in options.items()})
    return configured_voters(settings, NodeId(1))


def test_a_node_without_configured_voters_is_its_own_quorum() -> None:
    assert configured() == {1: None}


def test_voters_are_listed_with_their_addresses() -> None:
    assert configured(controller_quorum_voters="1@a:1,2@[::1]:2") == {1: ("a", 1), 2: ("::1", 2)}


def test_bootstrap_servers_with_unknown_ids_get_negative_ids() -> None:
    assert configured(controller_quorum_bootstrap_servers="a:1,b:2") == {-2: ("a", 1), -3: ("b", 2)}


@pytest.mark.parametrize(
    "options",
    [
        {"controller_quorum_voters": "a:1"},
        {"controller_quorum_voters": "x@a:1"},
        {"controller_quorum_voters": "1@a"},
        {"controller_quorum_bootstrap_servers": "a"},
        {"process_roles": "broker"},
        {"process_roles": "broker", "controller_quorum_voters": "1@a:1"},
    ],
)
def test_an_invalid_list_of_voters_is_rejected(options: dict[str, str]) -> None:
    with pytest.raises(StartupError):
        configured(**options)


def test_the_log_takes_precedence_over_hints_and_hints_over_the_configuration() -> None:
    voter_registry = VoterRegistry({NodeId(1): ("old", 1), NodeId(2): ("old", 2)})
    assert voter_registry.address_of(1) == ("old", 1)
    voter_registry.hint(NodeId(1), ("hinted", 1))
    assert voter_registry.address_of(1) == ("hinted", 1)
    voter_registry.append(Offset(5), (voter(1),))
    assert voter_registry.address_of(1) == ("host1", 9001)
    assert voter_registry.address_of(3) is None


def test_truncation_reverts_the_voters() -> None:
    voter_registry = VoterRegistry({NodeId(1): ("old", 1)})
    voter_registry.append(Offset(5), (voter(1), voter(2)))
    voter_registry.append(Offset(9), (voter(2),))
    assert voter_registry.at(9) == (voter(1), voter(2)) and voter_registry.at(5) is None
    voter_registry.truncate_to(9)
    assert voter_registry.present == (voter(1), voter(2))
    voter_registry.start_at(7)
    assert voter_registry.present == (voter(1), voter(2)) and voter_registry.at(3) == voter_registry.present
    voter_registry.truncate_to(0)
    assert voter_registry.is_named, "truncation must not affect a snapshot"


def test_a_record_of_voters_is_read_as_it_was_written() -> None:
    voters = (voter(1), Voter(id=NodeId(2)))
    record = control.voters(voters, timestamp=7)
    assert control.voters_in([control.kraft_version(1, timestamp=7), record]) == voters
    assert control.voters_in([control.kraft_version(1, timestamp=7)]) is None
