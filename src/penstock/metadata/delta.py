"""The changes from one image to the next, computed from committed records.

`Builder` replays records over an image and copies a map only when something in it
changes, so a change of one topic copies the topic map, not the topics.
`Delta` lists the differences. Used live and in replay. Refuses records that are
inconsistent with the image: Corruption.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast
from uuid import UUID

from penstock.metadata.image import (
    EMPTY,
    TOPIC,
    BrokerImage,
    ConfigResource,
    ControllerImage,
    Image,
    PartitionImage,
    TopicImage,
)
from penstock.metadata.records import (
    NO_CHANGE,
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)
from penstock.metadata.token_records import token_of
from penstock.model.acl import Acl
from penstock.model.errors import Corruption
from penstock.model.ids import LeaderEpoch, NodeId, Offset, ProducerId, TopicName
from penstock.quotas.entity import Entity, entity_of
from penstock.security.scram import ScramCredential
from penstock.security.tokens import DelegationToken


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """The differences between an image and the previous one.

    A topic that is deleted and created again with the same name is in both lists, with two ids.
    `partitions_changed` has the new and changed partitions of created and changed topics.
    """

    before: Image
    topics_created: tuple[TopicImage, ...] = ()
    topics_deleted: tuple[TopicImage, ...] = ()
    topics_changed: tuple[TopicImage, ...] = ()
    partitions_changed: Mapping[UUID, frozenset[int]]
    configs_changed: frozenset[ConfigResource] = frozenset()
    features_changed: frozenset[str] = frozenset()
    brokers_changed: frozenset[NodeId] = frozenset()
    quotas_changed: frozenset[Entity] = frozenset()
    credentials_changed: frozenset[tuple[str, int]] = frozenset()
    acls_changed: frozenset[UUID] = frozenset()

    @staticmethod
    def whole(image: Image) -> "Delta":
        """Return the delta from the empty image, for a subscriber that subscribes late."""
        return Delta(
            before=EMPTY,
            topics_created=tuple(image.topics.values()),
            partitions_changed={topic.id: frozenset(range(len(topic.partitions))) for topic in image.topics.values()},
            configs_changed=frozenset(image.configs),
            features_changed=frozenset(image.features),
            brokers_changed=frozenset(image.brokers),
            quotas_changed=frozenset(image.quotas),
            credentials_changed=frozenset(image.credentials),
            acls_changed=frozenset(image.acls),
        )


def apply(
    image: Image, records: Iterable[MetadataRecord], *, offset: Offset, epoch: LeaderEpoch
) -> tuple[Delta, Image]:
    """Return the changes of the records, and the image after them."""
    builder = Builder(image)
    for record in records:
        builder.replay(record)
    return builder.build(offset=offset, epoch=epoch)


class Builder:
    """An image being changed. Used once: replay records, then build."""

    def __init__(self, image: Image) -> None:
        self._before = image
        self._topics: dict[UUID, TopicImage] = {}
        self._names: dict[TopicName, UUID] = {}
        self._partitions: dict[UUID, list[PartitionImage]] = {}
        self._partitions_changed: dict[UUID, set[int]] = {}
        self._topics_removed: set[UUID] = set()
        self._brokers: dict[NodeId, BrokerImage | None] = {}
        self._controllers: dict[NodeId, ControllerImage] = {}
        self._configs: dict[ConfigResource, dict[str, str]] = {}
        self._features: dict[str, int] = {}
        self._quotas: dict[Entity, dict[str, float]] = {}
        self._credentials: dict[tuple[str, int], ScramCredential | None] = {}
        self._acls: dict[UUID, Acl | None] = {}
        self._tokens: dict[str, DelegationToken | None] = {}
        self._next_producer_id = image.next_producer_id

    def replay(self, record: MetadataRecord) -> None:
        _REPLAY[type(record)](self, record)

    def register_broker(self, record: RegisterBrokerRecord) -> None:
        node_id = NodeId(record.broker_id)
        self._brokers[node_id] = BrokerImage(
            node_id=node_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            end_points=record.end_points,
            features=record.features,
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            log_dirs=record.log_dirs,
            read_only=record.read_only,
        )

    def register_controller(self, record: RegisterControllerRecord) -> None:
        node_id = NodeId(record.controller_id)
        self._controllers[node_id] = ControllerImage(
            node_id=node_id,
            incarnation_id=record.incarnation_id,
            end_points=record.end_points,
            features=record.features,
        )

    def unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._brokers[self._broker(record.broker_id, record.broker_epoch).node_id] = None

    def change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        self._brokers[broker.node_id] = replace(
            broker,
            fenced=broker.fenced if record.fenced == 0 else record.fenced > 0,
            in_controlled_shutdown=broker.in_controlled_shutdown or record.in_controlled_shutdown > 0,
            log_dirs=record.log_dirs or broker.log_dirs,
            read_only=broker.read_only if record.read_only == 0 else record.read_only > 0,
        )

    def create_topic(self, record: TopicRecord) -> None:
        name = TopicName(record.name)
        if self._topic_named(name) is not None:
            raise Corruption(f"topic {name} is created but already exists")
        if record.topic_id in self._before.topics_by_id or record.topic_id in self._topics:
            raise Corruption(f"topic {name} is created with an id that is already in use, {record.topic_id}")
        self._topics[record.topic_id] = TopicImage(name=name, id=record.topic_id)
        self._names[name] = record.topic_id
        self._partitions[record.topic_id] = []
        self._partitions_changed[record.topic_id] = set()

    def put_partition(self, record: PartitionRecord) -> None:
        partitions = self._open_partitions(record.topic_id)
        partition = PartitionImage(
            leader=NodeId(record.leader),
            leader_epoch=LeaderEpoch(record.leader_epoch),
            replicas=_nodes(record.replicas),
            isr=_nodes(record.isr),
            eligible_leader_replicas=_nodes(record.eligible_leader_replicas or ()),
            last_known_elr=_nodes(record.last_known_elr or ()),
            partition_epoch=record.partition_epoch,
            removing_replicas=_nodes(record.removing_replicas),
            adding_replicas=_nodes(record.adding_replicas),
            directories=record.directories,
            leader_recovery_state=record.leader_recovery_state,
        )
        if record.partition_id == len(partitions):
            partitions.append(partition)
        elif 0 <= record.partition_id < len(partitions):
            partitions[record.partition_id] = partition
        else:
            raise Corruption(f"partition {record.partition_id} of topic {record.topic_id} does not follow the last one")
        self._partitions_changed[record.topic_id].add(record.partition_id)

    def change_partition(self, record: PartitionChangeRecord) -> None:
        partitions = self._open_partitions(record.topic_id)
        if not 0 <= record.partition_id < len(partitions):
            raise Corruption(
                f"partition {record.partition_id} of topic {record.topic_id} is changed but does not exist"
            )
        partition = partitions[record.partition_id]
        names_leader = record.leader != NO_CHANGE
        partitions[record.partition_id] = PartitionImage(
            leader=NodeId(record.leader) if names_leader else partition.leader,
            # A record with a leader begins a new leader epoch, even if the leader is the same.
            leader_epoch=LeaderEpoch(partition.leader_epoch + 1) if names_leader else partition.leader_epoch,
            replicas=_nodes_or(record.replicas, partition.replicas),
            isr=_nodes_or(record.isr, partition.isr),
            eligible_leader_replicas=_nodes_or(record.eligible_leader_replicas, partition.eligible_leader_replicas),
            last_known_elr=_nodes_or(record.last_known_elr, partition.last_known_elr),
            partition_epoch=partition.partition_epoch + 1,
            removing_replicas=_nodes_or(record.removing_replicas, partition.removing_replicas),
            adding_replicas=_nodes_or(record.adding_replicas, partition.adding_replicas),
            directories=partition.directories if record.directories is None else record.directories,
            leader_recovery_state=(
                partition.leader_recovery_state if record.leader_recovery_state < 0 else record.leader_recovery_state
            ),
        )
        self._partitions_changed[record.topic_id].add(record.partition_id)

    def remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self._topic(record.topic_id)
        self._topics.pop(topic.id, None)
        self._names.pop(topic.name, None)
        self._partitions.pop(topic.id, None)
        self._partitions_changed.pop(topic.id, None)
        if topic.id in self._before.topics_by_id:
            self._topics_removed.add(topic.id)
        resource = ConfigResource(TOPIC, topic.name)
        if self._before.config(resource) or resource in self._configs:
            self._configs[resource] = {}

    def set_config(self, record: ConfigRecord) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        values = self._configs.get(resource)
        if values is None:
            values = self._configs[resource] = dict(self._before.config(resource))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value

    def set_feature(self, record: FeatureLevelRecord) -> None:
        self._features[record.name] = record.feature_level

    def set_quota(self, record: ClientQuotaRecord) -> None:
        entity = entity_of({part.entity_type: part.entity_name for part in record.entity})
        values = self._quotas.get(entity)
        if values is None:
            values = self._quotas[entity] = dict(self._before.quotas.get(entity, {}))
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value

    def set_credential(self, record: UserScramCredentialRecord) -> None:
        credential = ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)
        self._credentials[record.name, record.mechanism] = credential

    def remove_credential(self, record: RemoveUserScramCredentialRecord) -> None:
        key = record.name, record.mechanism
        if self._credentials.get(key, self._before.credentials.get(key)) is None:
            raise Corruption(f"a credential of user {record.name} is removed but does not exist")
        self._credentials[key] = None

    def put_acl(self, record: AccessControlEntryRecord) -> None:
        self._acls[record.id] = Acl(
            resource_type=record.resource_type,
            resource_name=record.resource_name,
            pattern_type=record.pattern_type,
            principal=record.principal,
            host=record.host,
            operation=record.operation,
            permission=record.permission_type,
        )

    def remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        if self._acls.get(record.id, self._before.acls.get(record.id)) is None:
            raise Corruption(f"the ACL {record.id} is removed but does not exist")
        self._acls[record.id] = None

    def put_token(self, record: DelegationTokenRecord) -> None:
        self._tokens[record.token_id] = token_of(record)

    def remove_token(self, record: RemoveDelegationTokenRecord) -> None:
        if self._tokens.get(record.token_id, self._before.tokens.get(record.token_id)) is None:
            raise Corruption(f"the delegation token {record.token_id} is removed but does not exist")
        self._tokens[record.token_id] = None

    def set_next_producer_id(self, record: ProducerIdsRecord) -> None:
        if record.next_producer_id < self._next_producer_id:
            raise Corruption(
                f"the next producer id decreases from {self._next_producer_id} to {record.next_producer_id}"
            )
        self._next_producer_id = ProducerId(record.next_producer_id)

    def build(self, *, offset: Offset, epoch: LeaderEpoch) -> tuple[Delta, Image]:
        """Return the changes of the replayed records, and the image after them."""
        before = self._before
        now = {
            topic_id: replace(topic, partitions=tuple(self._partitions[topic_id]))
            for topic_id, topic in self._topics.items()
        }
        image = replace(
            before,
            topics=self._topic_map(
                {topic.name: topic for topic in now.values()}, before.topics, lambda topic: topic.name
            ),
            topics_by_id=self._topic_map(now, before.topics_by_id, lambda topic: topic.id),
            brokers=_merged(before.brokers, self._brokers, is_removed=lambda broker: broker is None),
            controllers=_merged(before.controllers, self._controllers, is_removed=lambda _: False),
            configs=_merged(before.configs, self._configs, is_removed=lambda values: not values),
            features=_merged(before.features, self._features, is_removed=lambda level: level == 0),
            quotas=_merged(before.quotas, self._quotas, is_removed=lambda values: not values),
            credentials=_merged(before.credentials, self._credentials, is_removed=lambda value: value is None),
            acls=_merged(before.acls, self._acls, is_removed=lambda value: value is None),
            tokens=_merged(before.tokens, self._tokens, is_removed=lambda value: value is None),
            next_producer_id=self._next_producer_id,
            offset=offset,
            epoch=epoch,
        )
        delta = Delta(
            before=before,
            topics_created=tuple(topic for topic in now.values() if topic.id not in before.topics_by_id),
            topics_deleted=tuple(before.topics_by_id[topic_id] for topic_id in self._topics_removed),
            topics_changed=tuple(topic for topic in now.values() if topic.id in before.topics_by_id),
            partitions_changed={topic_id: frozenset(changed) for topic_id, changed in self._partitions_changed.items()},
            configs_changed=frozenset(self._configs),
            features_changed=frozenset(self._features),
            brokers_changed=frozenset(self._brokers),
            quotas_changed=frozenset(self._quotas),
            credentials_changed=frozenset(self._credentials),
            acls_changed=frozenset(self._acls),
        )
        return delta, image

    def _topic_map(
        self, now: Mapping[Any, TopicImage], before: Mapping[Any, TopicImage], key: Callable[[TopicImage], Any]
    ) -> Mapping[Any, TopicImage]:
        if not now and not self._topics_removed:
            return before
        topics = dict(before)
        for topic_id in self._topics_removed:
            del topics[key(self._before.topics_by_id[topic_id])]
        topics.update(now)
        return topics

    def _broker(self, broker_id: int, epoch: int) -> BrokerImage:
        node_id = NodeId(broker_id)
        broker = self._brokers[node_id] if node_id in self._brokers else self._before.brokers.get(node_id)
        if broker is None:
            raise Corruption(f"broker {broker_id} is changed but not registered")
        if broker.epoch != epoch:
            raise Corruption(f"broker {broker_id} is changed at epoch {epoch} but is registered at {broker.epoch}")
        return broker

    def _topic_named(self, name: TopicName) -> TopicImage | None:
        if name in self._names:
            return self._topics[self._names[name]]
        topic = self._before.topics.get(name)
        return None if topic is None or topic.id in self._topics_removed else topic

    def _topic(self, topic_id: UUID) -> TopicImage:
        topic = self._topics.get(topic_id)
        if topic is None and topic_id not in self._topics_removed:
            topic = self._before.topics_by_id.get(topic_id)
        if topic is None:
            raise Corruption(f"topic {topic_id} is changed but does not exist")
        return topic

    def _open_partitions(self, topic_id: UUID) -> list[PartitionImage]:
        """Return a mutable list of the topic's partitions."""
        partitions = self._partitions.get(topic_id)
        if partitions is None:
            topic = self._topic(topic_id)
            self._topics[topic_id] = topic
            self._names[topic.name] = topic_id
            partitions = self._partitions[topic_id] = list(topic.partitions)
            self._partitions_changed[topic_id] = set()
        return partitions


def _merged(
    before: Mapping[Any, Any], changed: Mapping[Any, Any], *, is_removed: Callable[[Any], bool]
) -> Mapping[Any, Any]:
    if not changed:
        return before
    merged = {**before, **changed}
    for key, value in changed.items():
        if is_removed(value):
            del merged[key]
    return merged


def _nodes(ids: tuple[int, ...]) -> tuple[NodeId, ...]:
    # Not copied: records that are decoded together share their tuples, and so do the partitions of the image.
    return cast(tuple[NodeId, ...], ids)


def _nodes_or(ids: tuple[int, ...] | None, before: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
    return before if ids is None else _nodes(ids)


_REPLAY: dict[type[MetadataRecord], Callable[[Builder, Any], None]] = {
    RegisterBrokerRecord: Builder.register_broker,
    UnregisterBrokerRecord: Builder.unregister_broker,
    RegisterControllerRecord: Builder.register_controller,
    BrokerRegistrationChangeRecord: Builder.change_broker,
    TopicRecord: Builder.create_topic,
    PartitionRecord: Builder.put_partition,
    PartitionChangeRecord: Builder.change_partition,
    RemoveTopicRecord: Builder.remove_topic,
    ConfigRecord: Builder.set_config,
    FeatureLevelRecord: Builder.set_feature,
    ClientQuotaRecord: Builder.set_quota,
    UserScramCredentialRecord: Builder.set_credential,
    RemoveUserScramCredentialRecord: Builder.remove_credential,
    AccessControlEntryRecord: Builder.put_acl,
    RemoveAccessControlEntryRecord: Builder.remove_acl,
    DelegationTokenRecord: Builder.put_token,
    RemoveDelegationTokenRecord: Builder.remove_token,
    ProducerIdsRecord: Builder.set_next_producer_id,
    NoOpRecord: lambda builder, record: None,
}
