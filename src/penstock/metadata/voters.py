"""The voters of the metadata quorum and their addresses: from the configuration, the log, and responses.

`VoterRegistry` follows the log like the core's own history. Addresses in the log take precedence over those
in responses, and these over the configured ones. Refuses a configuration that cannot be parsed: StartupError.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from penstock.config.settings import BrokerSettings
from penstock.model.errors import StartupError
from penstock.model.ids import NodeId, Offset

Address = tuple[str, int]
FIRST_BOOTSTRAP_ID: Final = -2
"""Servers whose node ids are not known yet get ids below -1, as in Kafka."""
CONTROLLER_LISTENER: Final = "CONTROLLER"


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterEndpoint:
    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    id: NodeId
    directory_id: UUID | None = None
    endpoints: tuple[VoterEndpoint, ...] = ()


VoterSet = tuple[Voter, ...]


def ids_of(voters: VoterSet) -> frozenset[NodeId]:
    return frozenset(voter.id for voter in voters)


def configured_voters(settings: BrokerSettings, node_id: NodeId) -> dict[NodeId, Address | None]:
    """Return the configured voters and bootstrap servers; a node without any is a quorum of its own."""
    listed: dict[NodeId, Address | None] = dict(_read_voters(settings.words("controller.quorum.voters")))
    is_controller = "controller" in settings.words("process.roles")
    if node_id in listed and not is_controller:
        raise StartupError(
            f"controller.quorum.voters names this node, {node_id}, but it is not a controller: add it to process.roles"
        )
    if listed:
        return listed
    servers = [_read_address(text) for text in settings.words("controller.quorum.bootstrap.servers")]
    if servers:
        return {NodeId(FIRST_BOOTSTRAP_ID - index): address for index, address in enumerate(servers)}
    if not is_controller:
        raise StartupError("A node that is not a controller needs the addresses of some: set controller.quorum.voters")
    return {node_id: None}


def _read_voters(entries: tuple[str, ...]) -> Iterator[tuple[NodeId, Address]]:
    for entry in entries:
        number, found, address = entry.partition("@")
        if not found or not number.isascii() or not number.isdigit():
            raise StartupError(f"controller.quorum.voters: {entry} does not have the form id@host:port")
        yield NodeId(int(number)), _read_address(address)


def _read_address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit():
        raise StartupError(f"{text} does not have the form host:port")
    return host.strip("[]"), int(port)


def _endpoints(address: Address | None) -> tuple[VoterEndpoint, ...]:
    if address is None:
        return ()
    return (VoterEndpoint(name=CONTROLLER_LISTENER, host=address[0], port=address[1]),)


class VoterRegistry:
    def __init__(self, configured: dict[NodeId, Address | None], *, prefers_hints: bool = True) -> None:
        """Create one. With `prefers_hints`, addresses in responses come before configured ones.

        Not on a secured node: while a cluster is being secured, a response may name a listener of the other protocol.
        """
        self.configured = configured
        self._prefers_hints = prefers_hints
        self._base: VoterSet | None = None
        self._sets: list[tuple[Offset, VoterSet]] = []
        self._hints: dict[NodeId, Address] = {}
        self.directories: dict[NodeId, UUID] = {}
        """The directory ids of the voters, as far as they have reported them."""

    @property
    def present(self) -> VoterSet:
        """Return the current voters; the configured ones while the log names none."""
        named = self._sets[-1][1] if self._sets else self._base
        if named is not None:
            return named
        return tuple(
            Voter(id=node, directory_id=self.directories.get(node), endpoints=_endpoints(address))
            for node, address in sorted(self.configured.items())
            if node >= 0
        )

    @property
    def is_named(self) -> bool:
        """Return whether the log names the voters."""
        return bool(self._sets) or self._base is not None

    @property
    def kraft_version(self) -> int:
        """Return the level of the feature: 1 if the log names the voters (KIP-853)."""
        return 1 if self.is_named else 0

    def at(self, end: int) -> VoterSet | None:
        """Return the voters that the log names below an offset; None if it names none."""
        named = [voters for offset, voters in self._sets if offset < end]
        return named[-1] if named else self._base

    def append(self, offset: Offset, voters: VoterSet) -> None:
        self._sets.append((offset, voters))

    def truncate_to(self, end: int) -> None:
        while self._sets and self._sets[-1][0] >= end:
            self._sets.pop()

    def start_at(self, end: int) -> None:
        while self._sets and self._sets[0][0] < end:
            self._base = self._sets.pop(0)[1]

    def replaced(self, voters: VoterSet | None) -> None:
        """Restart after a snapshot, which may name the voters."""
        self._sets.clear()
        self._base = voters if voters is not None else self._base

    def hint(self, node: NodeId, address: Address) -> None:
        """Record a leader's address from a response."""
        self._hints[node] = address

    def note_directory(self, node: NodeId, directory_id: UUID | None) -> None:
        """Record the directory id that a node has reported."""
        if directory_id is not None:
            self.directories[node] = directory_id

    def address_of(self, node: int) -> Address | None:
        for voter in self.present if self.is_named else ():
            if voter.id == node and voter.endpoints:
                return voter.endpoints[0].host, voter.endpoints[0].port
        hint, configured = self._hints.get(NodeId(node)), self.configured.get(NodeId(node))
        return (hint or configured) if self._prefers_hints else (configured or hint)
