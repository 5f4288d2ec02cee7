"""Produce and Fetch requests to the handlers of `ReplicatedPartition`, by kio's schemas."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kio.index import load_response_schema
from kio.serial import entity_reader

from penstock.handlers.support.reply import Parked
from penstock.model.ids import NodeId
from penstock.ports.network import FileSlice
from penstock.wire.frame import parse_header
from penstock.wire.records import Record, encode_batch
from tests.differential.entities import API_KEYS, request_frame
from tests.unit.replication.replicated_partition import NOW_MS, TOPIC, TOPIC_ID, Node, ReplicatedPartition

PRODUCE_IDS_FROM = FETCH_IDS_FROM = 13


@asynccontextmanager
async def replicated(**options: Any) -> AsyncIterator[ReplicatedPartition]:
    """Start three nodes with orders-0, which node 1 leads."""
    world = ReplicatedPartition(**options)
    await world.settle()
    yield world


def leader(world: ReplicatedPartition) -> Node:
    return world.nodes[NodeId(1)]


def batch(*values: bytes, **options: Any) -> bytes:
    return bytes(encode_batch([Record(timestamp=NOW_MS, value=value) for value in values or (b"v",)], **options))


def produce(
    node: Node, *rows: tuple[int, bytes | None], version: int = 12, acks: int = 1, topic: str = TOPIC, **fields: Any
) -> Any:
    """Send batches to partitions of a topic; returns what the handler returns."""
    partitions = [{"index": index, "records": records} for index, records in rows]
    topic_id = fields.pop("topic_id", TOPIC_ID)
    data = [{"name": topic, "topic_id": topic_id, "partition_data": partitions}]
    return _send(node.produce.handle, "produce", version, {"acks": acks, "timeout": 1000, "topic_data": data, **fields})


def fetch(
    node: Node,
    *rows: dict[str, Any],
    version: int = 17,
    topic: str = TOPIC,
    client: Any = None,
    rights: Any = None,
    **fields: Any,
) -> Any:
    """Fetch partitions of a topic from offset 0; returns what the handler returns."""
    requested = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 10_000, **row} for row in rows or ({},)]
    topics = [{"topic": topic, "topic_id": fields.pop("topic_id", TOPIC_ID), "partitions": requested}]
    values = {"max_wait": 0, "min_bytes": 1, "max_bytes": 10_000, "replica_id": -1, "topics": topics, **fields}
    if version < 11:
        values.pop("rack_id", None)
    return _send(node.fetch.handle, "fetch", version, values, client=client, rights=rights)


def _send(
    handle: Any, api: str, version: int, values: dict[str, Any], *, client: Any = None, rights: Any = None
) -> Any:
    frame = memoryview(bytearray(request_frame(api, version, values)[4:]))
    header = parse_header(frame)
    header.client = client
    header.rights = rights
    return handle(frame, header, "PLAINTEXT")


def reply_of(api: str, version: int, reply: Any) -> Any:
    """Read the whole reply, which must be ready."""
    parts: Any = reply.parts if isinstance(reply, Parked) else reply
    data = b"".join(
        part.file.read(part.size, part.position) if isinstance(part, FileSlice) else bytes(part) for part in parts
    )
    layout = load_response_schema(API_KEYS[api], version)
    _, used = entity_reader(layout.__header_schema__)(data[4:], 0)
    entity, size = entity_reader(layout)(data[4:], used)
    assert used + size == len(data) - 4
    return entity


def produced(reply: Any, version: int = 12) -> Any:
    """Return the result of the only partition."""
    (topic,) = reply_of("produce", version, reply).responses
    (row,) = topic.partition_responses
    return row


def fetched(reply: Any, version: int = 17) -> Any:
    """Return the result of the only partition."""
    (topic,) = reply_of("fetch", version, reply).responses
    (row,) = topic.partitions
    return row
