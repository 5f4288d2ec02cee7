"""The context of a handler: the node's services, and its request.

Everything is passed in, so that a test can build a `Context` of fakes, and a handler has no other access
to the outside. The node replaces `settings` whenever a dynamic broker setting changes:
read it for each request, never keep it.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.handlers.support.entities import int32
from penstock.handlers.support.metadata_views import MetadataViews
from penstock.model.acl import CLUSTER_NAME, Operation, ResourceType, all_operations
from penstock.model.topic import AUDIT
from penstock.scheduling.scheduler import UNPACED, Pace
from penstock.security.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from kio.static.primitive import i32

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
    from penstock.security.rights import Authorizer, Rights
    from penstock.security.tokens import TokenSecrets
    from penstock.shares.services import ShareServices
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
    shares: "ShareServices"
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
    authorizer: "Authorizer | None" = None
    """Decides what clients may do; None if they may do everything."""
    token_secrets: "TokenSecrets | None" = None
    """The passwords of delegation tokens; None if tokens are disabled."""


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
    def rights(self) -> "Rights | None":
        """Return what the client may do; None if there is no authorizer, or the node itself sends the request."""
        rights: Rights | None = self.header.rights
        return rights

    def may(self, operation: int, resource_type: int, name: str, *, is_asked: bool = True) -> bool:
        """Return whether the client may do this; a list that is only filtered has not asked for the resource."""
        rights: Rights | None = self.header.rights
        return rights is None or rights.allows(
            operation, resource_type, name, api_key=self.header.api_key, is_asked=is_asked
        )

    def may_on_cluster(self, operation: int, *, is_asked: bool = True) -> bool:
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME, is_asked=is_asked)

    def may_on_topic(self, operation: int, name: str, *, is_asked: bool = True) -> bool:
        return self.may(operation, ResourceType.TOPIC, name, is_asked=is_asked)

    def topics_beyond_cluster(self, operation: int, names: Iterable[str]) -> list[str]:
        """Return the topics that need a right of their own; with the right on the cluster, only the audit topic."""
        if self.header.rights is None:
            return []
        if self.may_on_cluster(operation, is_asked=False):
            return [name for name in names if name == AUDIT]
        return list(names)

    def may_on_group(self, operation: int, group_id: str, *, is_asked: bool = True) -> bool:
        return self.may(operation, ResourceType.GROUP, group_id, is_asked=is_asked)

    def may_on_transactional_id(self, operation: int, name: str, *, is_asked: bool = True) -> bool:
        return self.may(operation, ResourceType.TRANSACTIONAL_ID, name, is_asked=is_asked)

    def describable(self, names: frozenset[str]) -> frozenset[str]:
        """Return those of the given topics that the client may describe."""
        return frozenset(name for name in names if self.may_on_topic(Operation.DESCRIBE, name, is_asked=False))

    def operations(self, resource_type: int, name: str) -> "i32":
        """Return the operations that the client may do on a resource, as bits."""
        rights: Rights | None = self.header.rights
        return int32(all_operations(resource_type) if rights is None else rights.operations(resource_type, name))

    @property
    def client_host(self) -> str:
        """Return the client's address in the form that Kafka writes into groups."""
        return f"/{self.connection.peer_host}"


def cluster_operations(request: Request) -> "i32":
    """Return the operations on the cluster that the client may do, as bits; none if it may not describe it."""
    is_visible = request.may_on_cluster(Operation.DESCRIBE, is_asked=False)
    return request.operations(ResourceType.CLUSTER, CLUSTER_NAME) if is_visible else int32(0)


ColdHandler = Callable[[Context, Request], Awaitable[Any]]
"""Returns an entity of the API's latest version, which the codec encodes in the request's version, or `Encoded`."""

HotHandler = Callable[["memoryview", "Header", str, "Connection | None"], "Parts | Parked | None"]
"""Answers a frame directly, or returns None to leave it to the cold handler of the API.

The other arguments are the name of the listener and the connection.
"""
