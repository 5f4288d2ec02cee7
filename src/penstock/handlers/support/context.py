"""The context of a handler: the node's services, and its request.

Everything is passed in, so that a test can build a `Context` of fakes, and a handler has no other access
to the outside. The node replaces `settings` whenever a dynamic broker setting changes:
read it for each request, never keep it.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.handlers.support.metadata_views import MetadataViews
from penstock.scheduling.scheduler import UNPACED, Pace
from penstock.security.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from penstock.config.settings import BrokerSettings
    from penstock.controller.broker_monitor import BrokerMonitor
    from penstock.controller.controller import Controller
    from penstock.groups.service import Groups
    from penstock.handlers.support.forwarding import Relay
    from penstock.handlers.support.reply import Parked, Parts
    from penstock.membership.producer_ids import ProducerIds
    from penstock.metadata.quorum import Quorum
    from penstock.metrics.metrics import Metrics
    from penstock.model.ids import NodeId
    from penstock.ports.clock import Clock
    from penstock.ports.disk import Disk
    from penstock.ports.entropy import Entropy
    from penstock.ports.network import Connection
    from penstock.quotas.throttle import Throttle
    from penstock.replication.replicas import Replicas
    from penstock.scheduling.scheduler import Scheduler
    from penstock.storage.store import LogStore
    from penstock.transactions.coordinator_client import TransactionCoordinators
    from penstock.transactions.marker_writer import MarkerWriter
    from penstock.transactions.service import Transactions
    from penstock.wire.frame import Header


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One advertised listener: an address that clients connect to."""

    listener: str
    host: str
    port: int


@dataclass(slots=True)
class Context:
    """The node's services, as handlers see them."""

    settings: "BrokerSettings"
    replicas: "Replicas"
    controller: "Controller"
    monitor: "BrokerMonitor"
    producer_ids: "ProducerIds"
    quorum: "Quorum"
    groups: "Groups"
    transactions: "Transactions"
    transaction_coordinators: "TransactionCoordinators"
    marker_writer: "MarkerWriter"
    clock: "Clock"
    entropy: "Entropy"
    disk: "Disk"
    store: "LogStore"
    node_id: "NodeId"
    cluster_id: str
    endpoints: Sequence[Endpoint]
    relay: "Relay"
    throttle: "Throttle"
    metrics: "Metrics"
    scheduler: "Scheduler"
    metadata_views: MetadataViews = field(default_factory=MetadataViews)


@dataclass(frozen=True, slots=True)
class Request:
    """One request: its header, and its body as an entity of the API's latest version."""

    header: "Header"
    body: Any
    connection: "Connection"
    listener: str = "PLAINTEXT"
    pace: Pace = UNPACED
    """How its long work is scheduled (docs/internals/loop.md)."""
    principal: Principal = ANONYMOUS

    @property
    def client_host(self) -> str:
        """Return the client's address in the form that Kafka writes into groups."""
        return f"/{self.connection.peer_host}"


ColdHandler = Callable[[Context, Request], Awaitable[Any]]
"""Returns an entity of the API's latest version, which the codec encodes in the request's version, or `Encoded`."""

HotHandler = Callable[["memoryview", "Header", str, "Connection | None"], "Parts | Parked"]
"""Answers a frame directly; the other arguments are the name of the listener and the connection."""
