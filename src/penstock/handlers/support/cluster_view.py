"""The cluster as seen by a client of one listener: its brokers, leaders and offline replicas.

Pure functions of the image, shared by the APIs that describe brokers and partitions. A broker
without the client's listener is unreachable and counts as absent.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.config.listeners import inter_broker_listener
from penstock.controller.leaders import directory_of
from penstock.metadata.records import LOST_DIRECTORY, BrokerEndpoint
from penstock.metadata.voters import Voter, VoterEndpoint
from penstock.model.errors import NotLeaderOrFollower, StorageError, UnknownTopicOrPartition
from penstock.model.ids import NO_NODE, NodeId, TopicName

if TYPE_CHECKING:
    from penstock.config.settings import BrokerSettings
    from penstock.handlers.support.context import Context, Endpoint
    from penstock.metadata.image import BrokerImage, Image, PartitionImage
    from penstock.replication.partition import Partition


def reachable_brokers(
    image: "Image", listener: str, *, with_fenced: bool = False
) -> "Iterator[tuple[BrokerImage, BrokerEndpoint]]":
    """Yield the brokers that a client can connect to, each with the endpoint for that client."""
    for broker in image.brokers.values():
        end_point = broker.end_point(listener)
        if end_point is not None and (with_fenced or not broker.fenced):
            yield broker, end_point


def is_reachable(image: "Image", node_id: NodeId, listener: str) -> bool:
    broker = image.brokers.get(node_id)
    return broker is not None and not broker.fenced and broker.end_point(listener) is not None


def offline_replicas(image: "Image", partition: "PartitionImage", listener: str) -> tuple[NodeId, ...]:
    return tuple(
        node_id
        for node_id in partition.replicas
        if not is_reachable(image, node_id, listener) or directory_of(partition, node_id) == LOST_DIRECTORY
    )


def controller_for_clients(image: "Image", node_id: NodeId, listener: str) -> NodeId:
    """Return a live broker, preferably this one: every broker forwards a client's changes to the controller."""
    if is_reachable(image, node_id, listener):
        return node_id
    return next((broker.node_id for broker, _ in reachable_brokers(image, listener)), NO_NODE)


def find_partition(context: "Context", topic: str, index: int) -> "Partition":
    """Return this node's replica of the partition; raise a refusal if it has none."""
    name = TopicName(topic)
    partition = context.replicas.find(name, index)
    if partition is not None:
        return partition
    known = context.quorum.image.partition(name, index)
    if known is None:
        raise UnknownTopicOrPartition
    if context.node_id in known.replicas:
        raise StorageError  # It belongs here, but its log could not be opened.
    raise NotLeaderOrFollower


def voter_endpoints(context: "Context", voter: Voter) -> tuple[VoterEndpoint, ...]:
    """Return the endpoints of a voter; those of a single node are not in the voters' record."""
    if voter.endpoints or voter.id != context.node_id:
        return voter.endpoints
    return own_voter_endpoints(context.settings, context.endpoints)


def own_voter_endpoints(settings: "BrokerSettings", endpoints: "Sequence[Endpoint]") -> tuple[VoterEndpoint, ...]:
    """Return the endpoints that other nodes of the quorum use: the controller listeners, or all, for brokers first."""
    named = controller_listeners(settings)
    between = inter_broker_listener(settings)
    chosen = [each for each in endpoints if each.listener in named]
    chosen = chosen or sorted(endpoints, key=lambda each: each.listener != between)
    return tuple(VoterEndpoint(name=each.listener, host=each.host, port=each.port) for each in chosen)


def controller_listeners(settings: "BrokerSettings") -> list[str]:
    """Return the names of the listeners that are only for controllers."""
    return [name.upper() for name in settings.words("controller.listener.names")]
