"""Describing and altering quotas, and what a quota on changes does to requests of old and new versions."""

from typing import Any

import pytest
from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.describe_client_quotas.v1.request import ComponentData, DescribeClientQuotasRequest
from kio.schema.envelope.v0.request import EnvelopeRequest
from kio.static.primitive import f64, i8, i16, i32

from penstock.handlers import alter_client_quotas, create_topics, delete_topics, describe_client_quotas, envelope
from penstock.handlers.entities import milliseconds, topic_name
from penstock.handlers.reply import Encoded
from penstock.handlers.throttled import throttled, told_by
from penstock.quotas.limits import Spans, Table
from penstock.wire import codec
from penstock.wire.api import ApiKey
from penstock.wire.frame import Header, parse_header, parse_response_header, request_head
from penstock.wire.hot import heartbeat
from tests.unit.handlers.fakes import FakeNode


async def alter(node: FakeNode, **changes: float) -> Any:
    entry = EntryData(
        entity=(EntityData(entity_type="user", entity_name=None),),
        ops=tuple(OpData(key=key, value=f64(value), remove=False) for key, value in changes.items()),
    )
    body = AlterClientQuotasRequest(entries=(entry,), validate_only=False)
    return await node.ask(alter_client_quotas.handle, ApiKey.ALTER_CLIENT_QUOTAS, body)


async def test_what_is_set_is_described() -> None:
    node = FakeNode()
    [told] = (await alter(node, producer_byte_rate=100.0)).entries
    assert told.error_code.value == 0
    asked = ComponentData(entity_type="user", match_type=i8(1), match=None)
    body = DescribeClientQuotasRequest(components=(asked,), strict=True)
    [entry] = (await node.ask(describe_client_quotas.handle, ApiKey.DESCRIBE_CLIENT_QUOTAS, body)).entries
    assert [(part.entity_type, part.entity_name) for part in entry.entity] == [("user", None)]
    assert [(value.key, value.value) for value in entry.values] == [("producer_byte_rate", 100.0)]


async def test_a_quota_of_zero_is_refused() -> None:
    node = FakeNode()
    [told] = (await alter(node, producer_byte_rate=0.0)).entries
    assert (told.error_code.value, told.error_message) == (42, "Quota producer_byte_rate must be greater than 0")
    assert node.image.quotas == {}


class Limited:
    """A node and a client of it that may change ten partitions, and one more each second."""

    def __init__(self) -> None:
        self.node = FakeNode()
        self.muted: list[float] = []
        table = Table({(("user", None),): {"controller_mutation_rate": 1.0}}, Spans(mutation_s=10))
        self.client = table.client(
            "u", "c", lambda api_key, seconds: self.muted.append(seconds), self.node.clock.monotonic()
        )

    async def create(self, name: str, count: int, *, version: int = 7) -> tuple[int, int]:
        """Returns the error code, and for how long the client is told to wait."""
        topic = CreatableTopic(
            name=topic_name(name), num_partitions=i32(count), replication_factor=i16(1), assignments=(), configs=()
        )
        body = CreateTopicsRequest(topics=(topic,), timeout=milliseconds(1000))
        request = self.node.request(ApiKey.CREATE_TOPICS, version, body)
        request.header.client = self.client
        reply = await create_topics.handle(self.node.context, request)
        return reply.topics[0].error_code.value, request.header.throttle_ms


async def test_changes_over_the_quota_are_refused_until_the_debt_is_paid() -> None:
    world = Limited()
    assert await world.create("first", 15) == (0, 0)
    assert await world.create("second", 1) == (89, 5000)
    assert world.muted == [5.0]
    reference = DeleteTopicState(name=topic_name("first"), topic_id=None)
    request = world.node.request(
        ApiKey.DELETE_TOPICS, 6, DeleteTopicsRequest(topics=(reference,), timeout=milliseconds(1000))
    )
    request.header.client = world.client
    [deleted] = (await delete_topics.handle(world.node.context, request)).responses
    assert deleted.error_code.value == 89


async def test_old_versions_are_only_slowed_down() -> None:
    world = Limited()
    assert await world.create("first", 15, version=5) == (0, 5000)
    assert await world.create("second", 1, version=5) == (0, 6000)
    assert world.muted == [5.0, 6.0]


@pytest.mark.parametrize(("version", "tells"), [(0, False), (1, True), (4, True)])
def test_an_answer_that_is_bytes_already_is_told_the_time_where_it_has_room(version: int, tells: bool) -> None:
    header = Header(ApiKey.HEARTBEAT, version, 7, "c", 0)
    header.throttle_ms = 1234
    answer = throttled(header, Encoded((heartbeat.write_response(version, 7, 27),)))
    with_time = bytes(answer.parts[0])
    assert ((1234).to_bytes(4, "big") in with_time) is tells
    assert with_time.endswith(b"\x00\x1b" + (b"\x00" if version >= 4 else b""))


async def test_a_relayed_change_is_charged_where_it_is_decided_on_and_its_time_is_read_off_the_answer() -> None:
    world = Limited()
    world.node.context.throttle.quotas_changed({(("user", None),): {"controller_mutation_rate": 1.0}})

    async def relayed(name: str, count: int) -> tuple[Header, bytes]:
        topic = CreatableTopic(
            name=topic_name(name), num_partitions=i32(count), replication_factor=i16(1), assignments=(), configs=()
        )
        body = codec.write_request(
            ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=(topic,), timeout=milliseconds(1000))
        )
        frame = (request_head(ApiKey.CREATE_TOPICS, 7, 9, "c", len(body)) + body)[4:]
        asked = EnvelopeRequest(request_data=frame, request_principal=None, client_host_address=b"\x7f\0\0\1")
        reply = await envelope.handle(world.node.context, world.node.request(ApiKey.ENVELOPE, 0, asked))
        assert reply.response_data is not None
        return parse_header(memoryview(frame)), reply.response_data

    assert told_by(*await relayed("first", 30)) == 0
    header, answer = await relayed("second", 1)
    assert 18_000 < told_by(header, answer) <= 19_000
    _, position = parse_response_header(ApiKey.CREATE_TOPICS, 7, memoryview(answer))
    refused = codec.read_response(ApiKey.CREATE_TOPICS, 7, answer[position:])
    assert refused.topics[0].error_code.value == 89
