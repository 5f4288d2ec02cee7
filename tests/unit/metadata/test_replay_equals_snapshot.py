"""An image is the same whether a node replays the log, several batches at once, or loads a checkpoint on the way."""

from collections.abc import Callable
from random import Random
from typing import get_args
from uuid import UUID

import pytest

from penstock.metadata.delta import Builder, Delta, apply
from penstock.metadata.difference import difference
from penstock.metadata.image import EMPTY, Image
from penstock.metadata.records import (
    LOST_DIRECTORY,
    NO_CHANGE,
    AccessControlEntryRecord,
    BrokerEndpoint,
    BrokerFeature,
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
    QuotaEntityPart,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    decode,
    encode,
)
from penstock.metadata.snapshot import Snapshot, batches_of, end_of, read
from penstock.model.ids import LeaderEpoch, Offset

COMMITS = 60
RECORDS_MAX = 4
EPOCH = LeaderEpoch(3)


class Writer:
    """Writes random records that are valid after those before, of every type and with few distinct keys."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.image = EMPTY
        self.written: set[type[MetadataRecord]] = set()
        self._ids = 100

    def commit(self) -> list[MetadataRecord]:
        """Return the records of one commit, and apply them."""
        records: list[MetadataRecord] = []
        for _ in range(self.random.randint(1, RECORDS_MAX)):
            record = self.random.choice(_KINDS)(self) or NoOpRecord()
            records.append(record)
            _, self.image = apply(self.image, [record], offset=Offset(self.image.offset + 1), epoch=EPOCH)
        self.written.update(map(type, records))
        return records

    def new_id(self) -> UUID:
        self._ids += 1
        return UUID(int=self._ids << 64 | self._ids)

    def nodes(self, least: int = 0) -> tuple[int, ...]:
        return tuple(self.random.sample(range(1, 6), self.random.randint(least, 3)))

    def maybe_nodes(self) -> tuple[int, ...] | None:
        return self.random.choice((None, self.nodes()))

    def directories(self, count: int) -> tuple[UUID, ...]:
        return tuple(self.random.choice((LOST_DIRECTORY, UUID(int=1), UUID(int=77 << 64))) for _ in range(count))

    def end_points(self) -> tuple[BrokerEndpoint, ...]:
        port = self.random.choice((9092, 65535))
        return (BrokerEndpoint(name="PLAINTEXT", host="localhost", port=port, security_protocol=0),)

    def features(self) -> tuple[BrokerFeature, ...]:
        return (BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=30),)

    # -- one method for each type of record; None if no valid one exists -----------------------

    def register_broker(self) -> MetadataRecord:
        flags = [self.random.random() < 0.5 for _ in range(3)]
        return RegisterBrokerRecord(
            broker_id=self.random.randint(1, 4),
            incarnation_id=self.new_id(),
            broker_epoch=self.random.randint(0, 99),
            end_points=self.end_points(),
            features=self.features(),
            rack=self.random.choice((None, "", "a")),
            fenced=flags[0],
            in_controlled_shutdown=flags[1],
            log_dirs=self.directories(self.random.randint(0, 2)),
            read_only=flags[2],
        )

    def unregister_broker(self) -> MetadataRecord | None:
        if not self.image.brokers:
            return None
        broker = self.random.choice(list(self.image.brokers.values()))
        return UnregisterBrokerRecord(broker_id=broker.node_id, broker_epoch=broker.epoch)

    def change_broker(self) -> MetadataRecord | None:
        if not self.image.brokers:
            return None
        broker = self.random.choice(list(self.image.brokers.values()))
        return BrokerRegistrationChangeRecord(
            broker_id=broker.node_id,
            broker_epoch=broker.epoch,
            fenced=self.random.randint(-1, 1),
            in_controlled_shutdown=self.random.randint(0, 1),
            log_dirs=self.directories(self.random.randint(0, 2)),
            read_only=self.random.randint(-1, 1),
        )

    def register_controller(self) -> MetadataRecord:
        return RegisterControllerRecord(
            controller_id=self.random.randint(1, 4),
            incarnation_id=self.new_id(),
            end_points=self.end_points(),
            features=self.features(),
        )

    def create_topic(self) -> MetadataRecord | None:
        free = [name for name in ("a", "b", "c") if name not in self.image.topics]
        return TopicRecord(name=self.random.choice(free), topic_id=self.new_id()) if free else None

    def put_partition(self) -> MetadataRecord | None:
        if not self.image.topics:
            return None
        topic = self.random.choice(list(self.image.topics.values()))
        replicas = self.nodes(1)
        return PartitionRecord(
            partition_id=self.random.randint(0, len(topic.partitions)),
            topic_id=topic.id,
            replicas=replicas,
            isr=self.nodes(),
            removing_replicas=self.nodes(),
            adding_replicas=self.nodes(),
            leader=self.random.choice((-1, *replicas)),
            leader_recovery_state=self.random.randint(0, 1),
            leader_epoch=self.random.randint(0, 9),
            partition_epoch=self.random.randint(0, 9),
            directories=self.random.choice(((), self.directories(len(replicas)))),
            eligible_leader_replicas=self.maybe_nodes(),
            last_known_elr=self.maybe_nodes(),
        )

    def change_partition(self) -> MetadataRecord | None:
        topics = [topic for topic in self.image.topics.values() if topic.partitions]
        if not topics:
            return None
        topic = self.random.choice(topics)
        return PartitionChangeRecord(
            partition_id=self.random.randrange(len(topic.partitions)),
            topic_id=topic.id,
            isr=self.maybe_nodes(),
            leader=self.random.choice((NO_CHANGE, -1, 1, 2)),
            replicas=self.maybe_nodes(),
            removing_replicas=self.maybe_nodes(),
            adding_replicas=self.maybe_nodes(),
            leader_recovery_state=self.random.randint(-1, 1),
            eligible_leader_replicas=self.maybe_nodes(),
            last_known_elr=self.maybe_nodes(),
            directories=self.random.choice((None, self.directories(2))),
        )

    def remove_topic(self) -> MetadataRecord | None:
        topics = list(self.image.topics_by_id)
        return RemoveTopicRecord(topic_id=self.random.choice(topics)) if topics else None

    def set_config(self) -> MetadataRecord:
        kind, name = self.random.choice(((2, "a"), (2, "b"), (4, ""), (4, "1"), (16, "m"), (32, "g")))
        return ConfigRecord(
            resource_type=kind,
            resource_name=name,
            name=self.random.choice(("x", "y")),
            value=self.random.choice((None, "", "1")),
        )

    def set_feature(self) -> MetadataRecord:
        name = self.random.choice(("metadata.version", "group.version"))
        return FeatureLevelRecord(name=name, feature_level=self.random.randint(0, 2))

    def set_quota(self) -> MetadataRecord:
        kinds = self.random.choice((("user",), ("client-id",), ("ip",), ("user", "client-id"), ("client-id", "user")))
        name = self.random.choice((None, "anna"))
        return ClientQuotaRecord(
            entity=tuple(QuotaEntityPart(entity_type=kind, entity_name=name) for kind in kinds),
            key=self.random.choice(("producer_byte_rate", "request_percentage")),
            value=self.random.choice((0.5, 100.0)),
            remove=self.random.random() < 0.4,
        )

    def set_credential(self) -> MetadataRecord:
        return UserScramCredentialRecord(
            name=self.random.choice(("anna", "bob")),
            mechanism=self.random.randint(1, 2),
            salt=self.random.randbytes(3),
            stored_key=b"stored",
            server_key=b"server",
            iterations=4096,
        )

    def remove_credential(self) -> MetadataRecord | None:
        if not self.image.credentials:
            return None
        name, mechanism = self.random.choice(list(self.image.credentials))
        return RemoveUserScramCredentialRecord(name=name, mechanism=mechanism)

    def put_acl(self) -> MetadataRecord:
        return AccessControlEntryRecord(
            id=self.new_id(),
            resource_type=2,
            resource_name="a",
            pattern_type=self.random.choice((3, 4)),
            principal="User:anna",
            host="*",
            operation=self.random.randint(3, 9),
            permission_type=self.random.choice((2, 3)),
        )

    def remove_acl(self) -> MetadataRecord | None:
        acls = list(self.image.acls)
        return RemoveAccessControlEntryRecord(id=self.random.choice(acls)) if acls else None

    def put_token(self) -> MetadataRecord:
        return DelegationTokenRecord(
            owner="User:anna",
            requester=self.random.choice(("User:anna", "User:bob")),
            renewers=self.random.choice(((), ("User:bob",), ("User:bob", "User:carla"))),
            issue_timestamp=1,
            max_timestamp=3,
            expiration_timestamp=self.random.randint(1, 3),
            token_id=self.random.choice(("t", "u")),
        )

    def remove_token(self) -> MetadataRecord | None:
        tokens = list(self.image.tokens)
        return RemoveDelegationTokenRecord(token_id=self.random.choice(tokens)) if tokens else None

    def allocate_producer_ids(self) -> MetadataRecord:
        return ProducerIdsRecord(broker_id=1, broker_epoch=5, next_producer_id=self.image.next_producer_id + 1000)

    def no_op(self) -> MetadataRecord:
        return NoOpRecord()


_KINDS: tuple[Callable[[Writer], MetadataRecord | None], ...] = (
    Writer.register_broker,
    Writer.unregister_broker,
    Writer.change_broker,
    Writer.register_controller,
    Writer.create_topic,
    Writer.put_partition,
    Writer.put_partition,
    Writer.change_partition,
    Writer.change_partition,
    Writer.remove_topic,
    Writer.set_config,
    Writer.set_feature,
    Writer.set_quota,
    Writer.set_credential,
    Writer.remove_credential,
    Writer.put_acl,
    Writer.remove_acl,
    Writer.put_token,
    Writer.remove_token,
    Writer.allocate_producer_ids,
    Writer.no_op,
)


def through_a_checkpoint(image: Image) -> Image:
    return read(b"".join(batches_of(Snapshot(image, 42))), end_of(image)).image


def check_no_less(delta: Delta, needed: Delta) -> None:
    """Check that subscribers learn of every difference, also if some records have changed nothing."""
    assert {topic.id for topic in delta.topics_created} == {topic.id for topic in needed.topics_created}
    assert {topic.id for topic in delta.topics_deleted} == {topic.id for topic in needed.topics_deleted}
    assert {topic.id for topic in delta.topics_changed} >= {topic.id for topic in needed.topics_changed}
    for topic_id, indexes in needed.partitions_changed.items():
        assert delta.partitions_changed[topic_id] >= indexes
    for name in ("configs", "features", "brokers", "quotas", "credentials", "acls"):
        assert getattr(delta, f"{name}_changed") >= getattr(needed, f"{name}_changed"), name


@pytest.mark.parametrize("seed", range(40))
def test_the_log_and_a_checkpoint_lead_to_the_same_image(seed: int) -> None:
    writer = Writer(seed)
    all_at_once = Builder(EMPTY)
    restarted = EMPTY
    for _ in range(COMMITS):
        records = [decode(encode(record)) for record in writer.commit()]
        before = restarted
        for record in records:
            all_at_once.replay(record)
        delta, restarted = apply(before, records, offset=writer.image.offset, epoch=EPOCH)
        assert restarted == writer.image
        assert through_a_checkpoint(restarted) == restarted
        check_no_less(delta, difference(before, restarted))
        if writer.random.random() < 0.3:
            restarted = through_a_checkpoint(restarted)
    assert all_at_once.build(offset=writer.image.offset, epoch=EPOCH)[1] == writer.image


def test_the_records_of_the_test_above_are_of_every_type() -> None:
    written: set[type[MetadataRecord]] = set()
    for seed in range(40):
        writer = Writer(seed)
        for _ in range(COMMITS):
            writer.commit()
        written |= writer.written
    assert written == set(get_args(MetadataRecord))
