"""What a quota does to an answer through its handler."""

import pytest
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.envelope.v0.request import EnvelopeRequest
from kio.static.primitive import i16, i32

from penstock.handlers import envelope
from penstock.handlers.entities import milliseconds, topic_name
from penstock.handlers.reply import Encoded
from penstock.handlers.throttled import throttled, told_by
from penstock.wire import codec
from penstock.wire.api import ApiKey
from penstock.wire.frame import Header, parse_header, parse_response_header, request_head
from penstock.wire.hot import heartbeat
from tests.unit.handlers.requests import LimitedClient


@pytest.mark.parametrize(("version", "tells"), [(0, False), (1, True), (4, True)])
def test_an_answer_that_is_bytes_already_is_told_the_time_where_it_has_room(version: int, tells: bool) -> None:
    header = Header(ApiKey.HEARTBEAT, version, 7, "c", 0)
    header.throttle_ms = 1234
    answer = throttled(header, Encoded((heartbeat.write_response(version, 7, 27),)))
    with_time = bytes(answer.parts[0])
    assert ((1234).to_bytes(4, "big") in with_time) is tells
    assert with_time.endswith(b"\x00\x1b" + (b"\x00" if version >= 4 else b""))


async def test_a_relayed_change_is_charged_where_it_is_decided_on_and_its_time_is_read_off_the_answer() -> None:
    world = LimitedClient()
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
