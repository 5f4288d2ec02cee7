"""The encoding of records, compared with bytes from Kafka 4.3.1's serializers."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.groups.consumer import records as modern
from penstock.groups.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    GroupRecord,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    decode,
    decode_by_schema,
    encode,
    encode_by_schema,
)
from penstock.model.errors import Corruption

TOPIC_ID = UUID("01020304-0506-0708-1112-131415161718")
KEY = OffsetCommitKey("g-é", "orders", 7)
MEMBER_KEY = modern.ConsumerGroupMemberMetadataKey("g", "m")
OFFSET_KEY = "00010004672dc3a900066f726465727300000007"


def offset(**more: object) -> OffsetCommitValue:
    return OffsetCommitValue(offset=42, metadata="note", commit_timestamp=1700000000000, **more)  # type: ignore[arg-type]


def group(*, timestamp: int = 77, rebalance_timeout: int = 60000, instance_id: str | None = "i") -> GroupMetadataValue:
    member = MemberMetadata(
        member_id="m-1",
        group_instance_id=instance_id,
        client_id="c",
        client_host="/127.0.0.1",
        rebalance_timeout=rebalance_timeout,
        session_timeout=10000,
        subscription=b"\x01\x02",
        assignment=b"\x03",
    )
    return GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol="range",
        leader="m-1",
        current_state_timestamp=timestamp,
        members=(member,),
    )


WRITTEN: dict[str, tuple[GroupRecord, str, str | None]] = {
    "an offset": (
        GroupRecord(KEY, offset(leader_epoch=5, topic_id=TOPIC_ID)),
        OFFSET_KEY,
        "0004000000000000002a00000005056e6f74650000018bcfe5680001001001020304050607081112131415161718",
    ),
    "an offset without a topic id": (
        GroupRecord(KEY, OffsetCommitValue(offset=42, metadata="", commit_timestamp=9)),
        OFFSET_KEY,
        "0004000000000000002affffffff01000000000000000900",
    ),
    "an offset with a retention of its own": (
        GroupRecord(KEY, offset(expire_timestamp=1700000060000)),
        OFFSET_KEY,
        "0001000000000000002a00046e6f74650000018bcfe568000000018bcfe65260",
    ),
    "an offset's tombstone": (GroupRecord(KEY, None), OFFSET_KEY, None),
    "a group": (
        GroupRecord(GroupMetadataKey("g"), group()),
        "0002000167",
        "00030008636f6e73756d657200000003000572616e676500036d2d31000000000000004d0000000100036d2d31000169000163"
        "000a2f3132372e302e302e310000ea60000027100000000201020000000103",
    ),
    "an empty group": (
        GroupRecord(
            GroupMetadataKey("g"),
            GroupMetadataValue(protocol_type="", generation=0, protocol=None, leader=None, current_state_timestamp=5),
        ),
        "0002000167",
        "0003000000000000ffffffff000000000000000500000000",
    ),
    "a group's tombstone": (GroupRecord(GroupMetadataKey("g"), None), "0002000167", None),
    "a consumer group": (
        GroupRecord(modern.ConsumerGroupMetadataKey("g"), modern.ConsumerGroupMetadataValue(epoch=4, metadata_hash=99)),
        "0003000167",
        "0000000000040100080000000000000063",
    ),
    "partition metadata": (
        GroupRecord(
            modern.ConsumerGroupPartitionMetadataKey("g"),
            modern.ConsumerGroupPartitionMetadataValue(
                topics=(
                    modern.TopicMetadata(
                        topic_id=TOPIC_ID,
                        topic_name="orders",
                        num_partitions=2,
                        partition_metadata=(modern.PartitionRacks(partition=1, racks=("r1",)),),
                    ),
                )
            ),
        ),
        "0004000167",
        "00000201020304050607081112131415161718076f726465727300000002020000000102037231000000",
    ),
    "a member": (
        GroupRecord(
            MEMBER_KEY,
            modern.ConsumerGroupMemberMetadataValue(
                instance_id="i",
                client_id="c",
                client_host="h",
                subscribed_topic_names=("orders",),
                subscribed_topic_regex="o.*",
                rebalance_timeout_ms=9,
                server_assignor="uniform",
            ),
        ),
        "000500016700016d",
        "00000269000263026802076f7264657273046f2e2a0000000908756e69666f726d00",
    ),
    "a member that speaks the classic protocol": (
        GroupRecord(
            MEMBER_KEY,
            modern.ConsumerGroupMemberMetadataValue(
                instance_id="",
                rack_id="",
                client_id="c",
                client_host="h",
                subscribed_topic_regex="",
                rebalance_timeout_ms=9,
                server_assignor="",
                classic_member_metadata=modern.ClassicMemberMetadata(
                    session_timeout_ms=6000,
                    supported_protocols=(modern.ClassicProtocol(name="range", metadata=b"\x09"),),
                ),
            ),
        ),
        "000500016700016d",
        "0000010102630268010100000009010100100100001770020672616e676502090000",
    ),
    "a target epoch": (
        GroupRecord(
            modern.ConsumerGroupTargetAssignmentMetadataKey("g"),
            modern.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=4, assignment_timestamp=123),
        ),
        "0006000167",
        "000000000004010008000000000000007b",
    ),
    "a member's target": (
        GroupRecord(
            modern.ConsumerGroupTargetAssignmentMemberKey("g", "m"),
            modern.ConsumerGroupTargetAssignmentMemberValue(
                topic_partitions=(modern.TargetPartitions(topic_id=TOPIC_ID, partitions=(0, 1)),)
            ),
        ),
        "000700016700016d",
        "000002010203040506070811121314151617180300000000000000010000",
    ),
    "a member's current assignment": (
        GroupRecord(
            modern.ConsumerGroupCurrentMemberAssignmentKey("g", "m"),
            modern.ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=4,
                previous_member_epoch=3,
                state=1,
                assigned_partitions=(
                    modern.AssignedPartitions(topic_id=TOPIC_ID, partitions=(0, 1), assignment_epochs=(3, 4)),
                ),
                partitions_pending_revocation=(modern.AssignedPartitions(topic_id=TOPIC_ID, partitions=(2,)),),
            ),
        ),
        "000800016700016d",
        "00000000000400000003010201020304050607081112131415161718030000000000000001010009030000000300000004"
        "020102030405060708111213141516171802000000020000",
    ),
    "a regular expression": (
        GroupRecord(
            modern.ConsumerGroupRegularExpressionKey("g", "o.*"),
            modern.ConsumerGroupRegularExpressionValue(topics=("orders",), version=8, timestamp=9),
        ),
        "001000016700036f2e2a",
        "000002076f72646572730000000000000008000000000000000900",
    ),
}

READ: dict[str, tuple[object, str, str]] = {
    "offset 0": (offset(), OFFSET_KEY, "0000000000000000002a00046e6f74650000018bcfe56800"),
    "offset 0 under the oldest key": (
        offset(),
        "0000" + OFFSET_KEY[4:],
        "0000000000000000002a00046e6f74650000018bcfe56800",
    ),
    "offset 2": (offset(), OFFSET_KEY, "0002000000000000002a00046e6f74650000018bcfe56800"),
    "offset 3": (offset(leader_epoch=5), OFFSET_KEY, "0003000000000000002a0000000500046e6f74650000018bcfe56800"),
    "group 0": (
        group(timestamp=-1, rebalance_timeout=-1, instance_id=None),
        "0002000167",
        "00000008636f6e73756d657200000003000572616e676500036d2d310000000100036d2d31000163"
        "000a2f3132372e302e302e31000027100000000201020000000103",
    ),
    "group 1": (
        group(timestamp=-1, instance_id=None),
        "0002000167",
        "00010008636f6e73756d657200000003000572616e676500036d2d310000000100036d2d31000163"
        "000a2f3132372e302e302e310000ea60000027100000000201020000000103",
    ),
    "group 2": (
        group(instance_id=None),
        "0002000167",
        "00020008636f6e73756d657200000003000572616e676500036d2d31000000000000004d0000000100036d2d31000163"
        "000a2f3132372e302e302e310000ea60000027100000000201020000000103",
    ),
    "group 4": (
        group(),
        "0002000167",
        "000409636f6e73756d6572000000030672616e6765046d2d31000000000000004d02046d2d31026902630b2f3132372e302e302e31"
        "0000ea600000271003010202030000",
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_record_has_the_bytes_that_kafka_writes(name: str) -> None:
    record, key, value = WRITTEN[name]
    written_key, written_value = encode(record)
    assert written_key.hex() == key
    assert (None if written_value is None else written_value.hex()) == value


@pytest.mark.parametrize("name", WRITTEN)
def test_a_record_is_read_as_it_was_written(name: str) -> None:
    record, key, value = WRITTEN[name]
    assert decode(bytes.fromhex(key), None if value is None else bytes.fromhex(value)) == record


@pytest.mark.parametrize("name", READ)
def test_older_versions_are_read(name: str) -> None:
    value, key, raw = READ[name]
    record = decode(bytes.fromhex(key), bytes.fromhex(raw))
    assert record is not None
    assert record.value == value


def test_a_type_of_a_newer_release_is_skipped() -> None:
    assert decode(b"\x00\x63what", b"\x00\x00ever") is None


@pytest.mark.parametrize("name", WRITTEN)
def test_a_record_that_is_cut_short_anywhere_is_corrupt(name: str) -> None:
    _, key_hex, value_hex = WRITTEN[name]
    key = bytes.fromhex(key_hex)
    for size in range(len(key)):
        with pytest.raises(Corruption):
            decode(key[:size], None)
    value = bytes.fromhex(value_hex or "")
    for size in range(len(value)):
        with pytest.raises(Corruption):
            decode(key, value[:size])


def test_extra_bytes_after_a_record_are_corrupt() -> None:
    key, value = encode(WRITTEN["an offset"][0])
    assert value is not None
    with pytest.raises(Corruption):
        decode(key + b"\x00", value)
    with pytest.raises(Corruption):
        decode(key, value + b"\x00")


def test_a_version_of_a_newer_release_is_rejected() -> None:
    with pytest.raises(Corruption):
        decode(bytes.fromhex(OFFSET_KEY), b"\x00\x05")


NAMES = st.text(max_size=20)
OFFSETS = st.builds(
    OffsetCommitValue,
    offset=st.integers(-(2**63), 2**63 - 1),
    leader_epoch=st.integers(-1, 2**31 - 1),
    metadata=st.one_of(NAMES, st.text(min_size=100, max_size=140)),
    commit_timestamp=st.integers(-1, 2**63 - 1),
    expire_timestamp=st.just(-1),
    topic_id=st.one_of(st.just(UUID(int=0)), st.uuids()),
)
KEYS = st.builds(OffsetCommitKey, NAMES, NAMES, st.integers(-(2**31), 2**31 - 1))


@given(key=KEYS, value=OFFSETS)
def test_hand_written_encoding_of_offsets_agrees_with_the_schema(
    key: OffsetCommitKey, value: OffsetCommitValue
) -> None:
    record = GroupRecord(key, value)
    written = encode(record)
    assert written == encode_by_schema(record)
    assert decode(*written) == decode_by_schema(*written) == record


@given(key=KEYS, value=OFFSETS, data=st.data())
def test_hand_written_decoding_of_damaged_offsets_agrees_with_the_schema(
    key: OffsetCommitKey, value: OffsetCommitValue, data: st.DataObject
) -> None:
    parts = [bytearray(part or b"") for part in encode(GroupRecord(key, value))]
    part = data.draw(st.sampled_from(parts))
    position = data.draw(st.integers(0, len(part) - 1))
    if data.draw(st.booleans()):
        part[position] = data.draw(st.integers(0, 255))
    else:
        del part[position:]
    damaged = bytes(parts[0]), bytes(parts[1])
    try:
        expected: object = decode_by_schema(*damaged)
    except Corruption:
        expected = Corruption
    try:
        found: object = decode(*damaged)
    except Corruption:
        found = Corruption
    assert found == expected
