"""Metadata responses, versions 0-13: encoded topics, and the frame around them.

The encoded bytes of a topic depend only on the topic, so a caller can cache them and build responses from
them; the caller decides what each client sees of a topic. The request is decoded by codec.py.
Version notes: 1 racks, controller, internal topics; 2 cluster id; 3 throttling;
5 offline replicas; 7 leader epochs; 8 authorized operations (KIP-430), of the cluster until 10;
9 flexible; 10 topic ids; 12 a topic that is known only by its id has no name; 13 a top-level error.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Final
from uuid import UUID

from penstock.wire.hot.primitives import (
    NO_TAGS,
    pack_compact_string,
    pack_i16,
    pack_i32,
    pack_string,
    pack_uvarint,
)

RACK_FROM: Final = 1
CLUSTER_ID_FROM: Final = 2
THROTTLE_FROM: Final = 3
OFFLINE_REPLICAS_FROM: Final = 5
LEADER_EPOCH_FROM: Final = 7
OPERATIONS_FROM: Final = 8
CLUSTER_OPERATIONS_UNTIL: Final = 10
FLEXIBLE_FROM: Final = 9
TOPIC_ID_FROM: Final = 10
ERROR_FROM: Final = 13

TOPICS_AS_IN: Final = (0, 1, 1, 1, 1, 5, 6, 7, 8, 9, 10, 10, 10, 10)
"""For each version the oldest one with the same encoding of topics. 6 has that of 5, but another error code."""

OPERATIONS_UNKNOWN: Final = -(2**31)

_NODE_LISTS_MAX: Final = 4096
_NO_ID: Final = bytes(16)
_pack_partition_v0: Final = Struct(">hii").pack
_pack_partition_v7: Final = Struct(">hiii").pack

Row = tuple[int, int, int, bytes]
"""A partition: error code, leader, leader epoch, and its lists of nodes as returned by `pack_node_lists`."""
BrokerRow = tuple[int, str, int, str | None]


def pack_node_lists(version: int, replicas: Sequence[int], isr: Sequence[int], offline: Sequence[int]) -> bytes:
    """Encode what follows the leader of a partition. Few partitions differ in it, so it is worth caching."""
    flexible = version >= FLEXIBLE_FROM
    lists = _pack_nodes(tuple(replicas), flexible) + _pack_nodes(tuple(isr), flexible)
    if version >= OFFLINE_REPLICAS_FROM:
        lists += _pack_nodes(tuple(offline), flexible)
    return lists + NO_TAGS if flexible else lists


@lru_cache(_NODE_LISTS_MAX)
def _pack_nodes(nodes: tuple[int, ...], flexible: bool) -> bytes:
    return _pack_count(len(nodes), flexible) + Struct(f">{len(nodes)}i").pack(*nodes)


def pack_topic(
    version: int,
    error_code: int,
    name: str | None,
    topic_id: UUID | None,
    *,
    is_internal: bool,
    rows: Sequence[Row],
    operations: int = OPERATIONS_UNKNOWN,
) -> bytes:
    """Encode a topic; the index of a partition is its index among the rows."""
    flexible = version >= FLEXIBLE_FROM
    parts = [pack_i16(error_code), _pack_name(name, flexible)]
    if version >= TOPIC_ID_FROM:
        parts.append(_NO_ID if topic_id is None else topic_id.bytes)
    if version >= RACK_FROM:
        parts.append(b"\x01" if is_internal else b"\x00")
    parts.append(_pack_count(len(rows), flexible))
    if version >= LEADER_EPOCH_FROM:
        for index, (error, leader, epoch, lists) in enumerate(rows):
            parts.append(_pack_partition_v7(error, index, leader, epoch))
            parts.append(lists)
    else:
        for index, (error, leader, _, lists) in enumerate(rows):
            parts.append(_pack_partition_v0(error, index, leader))
            parts.append(lists)
    if version >= OPERATIONS_FROM:
        parts.append(pack_i32(operations))
    if flexible:
        parts.append(NO_TAGS)
    return b"".join(parts)


def pack_cluster(version: int, brokers: Iterable[BrokerRow], cluster_id: str | None, controller_id: int) -> bytes:
    """Encode the fields between the throttle time and the topics."""
    flexible = version >= FLEXIBLE_FROM
    packed = [_pack_broker(version, *broker) for broker in brokers]
    parts = [_pack_count(len(packed), flexible), *packed]
    if version >= CLUSTER_ID_FROM:
        parts.append(_pack_name(cluster_id, flexible))
    if version >= RACK_FROM:
        parts.append(pack_i32(controller_id))
    return b"".join(parts)


def _pack_broker(version: int, node_id: int, host: str, port: int, rack: str | None) -> bytes:
    flexible = version >= FLEXIBLE_FROM
    broker = pack_i32(node_id) + _pack_name(host, flexible) + pack_i32(port)
    if version >= RACK_FROM:
        broker += _pack_name(rack, flexible)
    return broker + NO_TAGS if flexible else broker


def write_response(
    version: int,
    correlation_id: int,
    cluster: bytes,
    topic_count: int,
    topics: Sequence[bytes],
    *,
    throttle_ms: int = 0,
    cluster_operations: int = OPERATIONS_UNKNOWN,
    error_code: int = 0,
) -> list[bytes]:
    """Return the whole response frame as parts; the encoded topics are among them and not copied."""
    flexible = version >= FLEXIBLE_FROM
    head = pack_i32(correlation_id)
    if flexible:
        head += NO_TAGS
    if version >= THROTTLE_FROM:
        head += pack_i32(throttle_ms)
    head += cluster + _pack_count(topic_count, flexible)
    tail = b""
    if OPERATIONS_FROM <= version <= CLUSTER_OPERATIONS_UNTIL:
        tail += pack_i32(cluster_operations)
    if version >= ERROR_FROM:
        tail += pack_i16(error_code)
    if flexible:
        tail += NO_TAGS
    size = len(head) + sum(map(len, topics)) + len(tail)
    return [pack_i32(size) + head, *topics, tail]


def _pack_count(count: int, flexible: bool) -> bytes:
    return pack_uvarint(count + 1) if flexible else pack_i32(count)


def _pack_name(name: str | None, flexible: bool) -> bytes:
    if flexible:
        return NO_TAGS if name is None else pack_compact_string(name)
    return b"\xff\xff" if name is None else pack_string(name)
