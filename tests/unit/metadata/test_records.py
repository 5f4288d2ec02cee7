"""The encoding of metadata records, compared with bytes from Apache Kafka 4.3.1."""

import contextlib
from dataclasses import replace
from unittest import mock
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.metadata.records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntityPart,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    decode,
    encode,
)
from penstock.model.errors import Corruption
from penstock.wire.fields import INT8, INT32, INT64, Field, Layout, Reader

TOPIC_ID = UUID("01020304-0506-0708-090a-0b0c0d0e0f10")
DIRECTORY = UUID("11121314-1516-1718-191a-1b1c1d1e1f20")

KAFKA: list[tuple[MetadataRecord, str]] = [
    (
        RegisterBrokerRecord(
            broker_id=1,
            incarnation_id=TOPIC_ID,
            broker_epoch=7,
            end_points=(BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9092, security_protocol=0),),
            features=(BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=30),),
            rack="r1",
            fenced=False,
            log_dirs=(DIRECTORY,),
        ),
        "01000300000001000102030405060708090a0b0c0d0e0f100000000000000007020a504c41494e544558540a6c6f63616c686f737423"
        "8400000002116d657461646174612e76657273696f6e0007001e000372310000010011021112131415161718191a1b1c1d1e1f20",
    ),
    (UnregisterBrokerRecord(broker_id=1, broker_epoch=7), "01010000000001000000000000000700"),
    (
        TopicRecord(name="orders", topic_id=TOPIC_ID),
        "010200076f72646572730102030405060708090a0b0c0d0e0f1000",
    ),
    (
        PartitionRecord(
            partition_id=2,
            topic_id=TOPIC_ID,
            replicas=(1, 2, 3),
            isr=(1,),
            removing_replicas=(3,),
            adding_replicas=(4,),
            leader=1,
            leader_recovery_state=1,
            leader_epoch=5,
            partition_epoch=6,
            directories=(DIRECTORY, DIRECTORY, DIRECTORY),
            eligible_leader_replicas=(2,),
            last_known_elr=(3,),
        ),
        "010302000000020102030405060708090a0b0c0d0e0f1004000000010000000200000003020000000102000000030200000004000000"
        "010000000500000006041112131415161718191a1b1c1d1e1f201112131415161718191a1b1c1d1e1f201112131415161718191a1b1c"
        "1d1e1f20030001010105020000000202050200000003",
    ),
    (
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="5"),
        "01040002076f72646572730d726574656e74696f6e2e6d73023500",
    ),
    (
        ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value=None),
        "0104000401116c6f672e726574656e74696f6e2e6d730000",
    ),
    (
        PartitionChangeRecord(
            partition_id=2,
            topic_id=TOPIC_ID,
            isr=(1, 2),
            leader=-1,
            eligible_leader_replicas=(3,),
            directories=(DIRECTORY,),
        ),
        "010502000000020102030405060708090a0b0c0d0e0f100400090300000001000000020104ffffffff060502000000030811021112131"
        "415161718191a1b1c1d1e1f20",
    ),
    (
        PartitionChangeRecord(
            partition_id=2,
            topic_id=TOPIC_ID,
            replicas=(1,),
            removing_replicas=(),
            adding_replicas=(),
            leader_recovery_state=0,
            last_known_elr=(1,),
        ),
        "010502000000020102030405060708090a0b0c0d0e0f10050205020000000103010104010105010007050200000001",
    ),
    (RemoveTopicRecord(topic_id=TOPIC_ID), "0109000102030405060708090a0b0c0d0e0f1000"),
    (
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        "010c00116d657461646174612e76657273696f6e001e00",
    ),
    (
        ClientQuotaRecord(
            entity=(
                QuotaEntityPart(entity_type="client-id", entity_name=None),
                QuotaEntityPart(entity_type="user", entity_name="alice"),
            ),
            key="producer_byte_rate",
            value=1048576.0,
        ),
        "010e00030a636c69656e742d69640000057573657206616c696365001370726f64756365725f627974655f7261746541300000000000000000",
    ),
    (
        ClientQuotaRecord(
            entity=(QuotaEntityPart(entity_type="ip", entity_name="10.0.0.1"),),
            key="connection_creation_rate",
            remove=True,
        ),
        "010e00020369700931302e302e302e310019636f6e6e656374696f6e5f6372656174696f6e5f7261746500000000000000000100",
    ),
    (
        ProducerIdsRecord(broker_id=1, broker_epoch=7, next_producer_id=1000),
        "010f0000000001000000000000000700000000000003e800",
    ),
    (
        BrokerRegistrationChangeRecord(
            broker_id=1, broker_epoch=7, fenced=-1, in_controlled_shutdown=1, log_dirs=(DIRECTORY,)
        ),
        "011102000000010000000000000007030001ff0101010211021112131415161718191a1b1c1d1e1f20",
    ),
    (NoOpRecord(), "01140000"),
]


@pytest.mark.parametrize(("record", "kafka"), KAFKA, ids=lambda value: type(value).__name__)
def test_records_have_kafkas_bytes(record: MetadataRecord, kafka: str) -> None:
    assert encode(record).hex() == kafka
    assert decode(bytes.fromhex(kafka)) == record


def test_a_partition_of_the_first_version_is_read() -> None:
    value = bytes.fromhex(
        "010300000000000102030405060708090a0b0c0d0e0f1002000000010200000001010100000001000000000000000000"
    )
    assert decode(value) == PartitionRecord(
        partition_id=0, topic_id=TOPIC_ID, replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0
    )


def test_unknown_tagged_fields_are_skipped() -> None:
    assert decode(bytes.fromhex("01140001630101")) == NoOpRecord()


def test_names_beyond_ascii_and_long_values_survive() -> None:
    record = ConfigRecord(resource_type=2, resource_name="ö" * 200, name="x", value="y" * 70_000)
    assert decode(encode(record)) == record


@pytest.mark.parametrize(
    "value",
    [
        "",
        "02140000",  # a later frame version
        "016300000000",  # an unknown type
        "01140100",  # a later version
        "0114000000",  # extra bytes after the record
        "010c00116d65746164617461",  # a string that ends early
        "010c0000001e00",  # null in a name that is not nullable
        "01140005",  # missing tagged fields
        "0114ffffffffffff",  # a varint without end
    ],
)
def test_invalid_bytes_are_rejected(value: str) -> None:
    with pytest.raises(Corruption):
        decode(bytes.fromhex(value))


@given(record=st.sampled_from([record for record, _ in KAFKA]), data=st.data())
def test_flipped_and_missing_bytes_give_a_record_or_corruption(record: MetadataRecord, data: st.DataObject) -> None:
    value = bytearray(encode(record))
    position = data.draw(st.integers(0, len(value) - 1))
    value[position] = data.draw(st.integers(0, 255))
    del value[data.draw(st.integers(1, len(value))) :]
    with contextlib.suppress(Corruption):
        assert decode(bytes(value)) is not None


@pytest.mark.parametrize(
    "record",
    [
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, read_only=1),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, fenced=-1, read_only=-1),
    ],
)
def test_an_own_field_has_a_tag_that_others_skip(record: BrokerRegistrationChangeRecord) -> None:
    encoded = encode(record)
    assert decode(encoded) == record
    older = Layout(
        BrokerRegistrationChangeRecord,
        2,
        Field("broker_id", INT32),
        Field("broker_epoch", INT64),
        Field("fenced", INT8, tag=0, default=0),
    )
    assert older.read(Reader(encoded, 3)) == replace(record, read_only=0)


def test_the_fields_that_partitions_share_are_encoded_and_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read = mock.Mock(side_effect=Layout.read)
    write = mock.Mock(side_effect=Layout.write)
    monkeypatch.setattr(Layout, "read", lambda *given: read(*given))
    monkeypatch.setattr(Layout, "write", lambda *given: write(*given))
    records = [
        PartitionChangeRecord(partition_id=index, topic_id=UUID(int=index // 50), leader=77, isr=(77, 78))
        for index in range(100)
    ]
    assert [decode(encode(record)) for record in records] == records
    assert (write.call_count, read.call_count) == (1, 1)


def test_a_partition_record_of_a_later_version_is_refused() -> None:
    value = bytearray(encode(PartitionChangeRecord(partition_id=1, topic_id=UUID(int=1), leader=1)))
    for version in (3, 0x80):
        value[2] = version
        with pytest.raises(Corruption, match="not supported"):
            decode(bytes(value))
