"""The cluster's metadata at one offset: immutable, shared by all readers.

Only `delta.py` creates new images, which share everything unchanged with the old one.
A reader that needs a consistent view keeps its image. Refuses nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from uuid import UUID

from penstock.metadata.records import BrokerEndpoint, BrokerFeature
from penstock.model.acl import Acl
from penstock.model.ids import NO_EPOCH, NO_OFFSET, LeaderEpoch, NodeId, Offset, ProducerId, TopicName
from penstock.quotas.entity import Quotas
from penstock.security.scram import ScramCredential
from penstock.security.tokens import Tokens

TOPIC = 2
BROKER = 4
BROKER_LOGGER = 8
CLIENT_METRICS = 16
GROUP = 32

FIRST_PRODUCER_ID = ProducerId(0)
_NONE: Mapping[Any, Any] = MappingProxyType({})


class ConfigResource(NamedTuple):
    """The resource of a config, of one of the types above; a BROKER named "" is the cluster-wide default."""

    type: int
    name: str


Credentials = Mapping[tuple[str, int], ScramCredential]
"""The SCRAM credentials of users, by name and by the number of the mechanism."""

Host = tuple[tuple[str, str], ...]
"""The host names that a broker advertises, with their listeners."""

RECOVERED: Final = 0
RECOVERING: Final = 1
"""The leader was elected uncleanly, and not every replica has rejoined the ISR since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage:
    leader: NodeId
    leader_epoch: LeaderEpoch
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    eligible_leader_replicas: tuple[NodeId, ...] = ()
    last_known_elr: tuple[NodeId, ...] = ()
    partition_epoch: int = 0
    removing_replicas: tuple[NodeId, ...] = ()
    adding_replicas: tuple[NodeId, ...] = ()
    directories: tuple[UUID, ...] = ()
    leader_recovery_state: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """A topic; the index of a partition is its position in `partitions`."""

    name: TopicName
    id: UUID
    partitions: tuple[PartitionImage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerImage:
    node_id: NodeId
    epoch: int
    incarnation_id: UUID
    end_points: tuple[BrokerEndpoint, ...]
    features: tuple[BrokerFeature, ...] = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[UUID, ...] = ()
    read_only: bool = False
    """Its disk is full or read-only: it serves reads, but does not lead or join an ISR if another broker can."""

    def end_point(self, listener: str) -> BrokerEndpoint | None:
        return next((end_point for end_point in self.end_points if end_point.name == listener), None)

    @property
    def host(self) -> Host:
        """The machine of the broker: brokers that advertise the same host names on the same listeners share one.

        All listeners count, because brokers on several machines may advertise one external address for clients.
        """
        return tuple(sorted((end_point.name, end_point.host.lower()) for end_point in self.end_points))


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerImage:
    node_id: NodeId
    incarnation_id: UUID
    end_points: tuple[BrokerEndpoint, ...]
    features: tuple[BrokerFeature, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """Everything committed up to and including `offset`; -1 if nothing is."""

    topics: Mapping[TopicName, TopicImage] = field(default_factory=lambda: _NONE)
    topics_by_id: Mapping[UUID, TopicImage] = field(default_factory=lambda: _NONE)
    brokers: Mapping[NodeId, BrokerImage] = field(default_factory=lambda: _NONE)
    controllers: Mapping[NodeId, ControllerImage] = field(default_factory=lambda: _NONE)
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=lambda: _NONE)
    features: Mapping[str, int] = field(default_factory=lambda: _NONE)
    quotas: Quotas = field(default_factory=lambda: _NONE)
    credentials: Credentials = field(default_factory=lambda: _NONE)
    acls: Mapping[UUID, Acl] = field(default_factory=lambda: _NONE)
    tokens: Tokens = field(default_factory=lambda: _NONE)
    next_producer_id: ProducerId = FIRST_PRODUCER_ID
    offset: Offset = NO_OFFSET
    epoch: LeaderEpoch = NO_EPOCH

    def config(self, resource: ConfigResource) -> Mapping[str, str]:
        """Return the settings of a resource, without defaults."""
        return self.configs.get(resource, _NONE)

    def topic_config(self, name: TopicName) -> Mapping[str, str]:
        return self.configs.get(ConfigResource(TOPIC, name), _NONE)

    def partition(self, name: TopicName, index: int) -> PartitionImage | None:
        """Return the partition, or None if the topic or the index does not exist."""
        topic = self.topics.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    def live_brokers(self) -> Iterator[BrokerImage]:
        """Yield the brokers that may lead partitions and receive replicas."""
        return (broker for broker in self.brokers.values() if not broker.fenced)


EMPTY = Image()
