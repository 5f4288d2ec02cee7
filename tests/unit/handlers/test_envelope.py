"""Envelope through its handler."""

from typing import Any

import pytest
from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.envelope.v0.request import EnvelopeRequest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.request import MetadataRequest

from penstock.handlers import envelope
from penstock.handlers.support.entities import milliseconds
from penstock.handlers.support.parts import PART_SIZE
from penstock.handlers.support.throttled import controller_throttle_ms
from penstock.model.job import Job
from penstock.wire import codec
from penstock.wire.api import ApiKey
from penstock.wire.frame import Header, parse_header, parse_response_header, request_head
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import SOON, LimitedClient, new_topic


def frame_of(api_key: int, version: int, entity: Any) -> bytes:
    body = codec.write_request(api_key, version, entity)
    return request_head(api_key, version, 7, "client", len(body))[4:] + body


def delete(name: str) -> DeleteTopicsRequest:
    topic = DeleteTopicState(name=name, topic_id=None)  # type: ignore[arg-type]
    return DeleteTopicsRequest(topics=(topic,), timeout=milliseconds(1000))


def sealed(frame: bytes) -> EnvelopeRequest:
    return EnvelopeRequest(request_data=frame, request_principal=None, client_host_address=b"\x7f\0\0\1")


async def test_an_envelope_is_answered_with_the_frame_that_the_client_gets() -> None:
    frame = frame_of(ApiKey.DELETE_TOPICS, 6, delete("nothing"))
    answer = await FakeNode().ask(envelope.handle, ApiKey.ENVELOPE, sealed(frame))
    assert answer.error_code == ErrorCode.none
    correlation_id, position = parse_response_header(ApiKey.DELETE_TOPICS, 6, memoryview(answer.response_data))
    inner = codec.read_response(ApiKey.DELETE_TOPICS, 6, answer.response_data[position:])
    assert correlation_id == 7
    assert [each.error_code for each in inner.responses] == [ErrorCode.unknown_topic_or_partition]


async def test_the_codecs_of_a_request_are_loaded_off_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[tuple[int, int]] = []

    def loading(api_key: int, version: int) -> Job[None]:
        loaded.append((api_key, version))
        yield lambda: None

    monkeypatch.setattr(envelope, "loading", loading)
    monkeypatch.setattr(envelope, "is_loaded", lambda *given: given in loaded)
    frame = frame_of(ApiKey.DELETE_TOPICS, 6, delete("nothing"))
    node = FakeNode()
    for _ in range(2):
        await node.ask(envelope.handle, ApiKey.ENVELOPE, sealed(frame))
    assert loaded == [(ApiKey.DELETE_TOPICS, 6)]


async def test_a_long_request_is_answered_in_parts() -> None:
    node = FakeNode()
    names = [f"t{number}" for number in range(3 * PART_SIZE)]
    topics = tuple(DeleteTopicState(name=name, topic_id=None) for name in names)  # type: ignore[arg-type]
    frame = frame_of(ApiKey.DELETE_TOPICS, 6, DeleteTopicsRequest(topics=topics, timeout=milliseconds(1000)))
    controller, decisions = node.context.controller, 0
    decide = controller.run

    def run(decision: Any) -> Any:
        nonlocal decisions
        decisions += 1
        return decide(decision)

    controller.run = run  # type: ignore[assignment]
    answer = await node.ask(envelope.handle, ApiKey.ENVELOPE, sealed(frame))
    _, position = parse_response_header(ApiKey.DELETE_TOPICS, 6, memoryview(answer.response_data))
    inner = codec.read_response(ApiKey.DELETE_TOPICS, 6, answer.response_data[position:])
    assert ([each.name for each in inner.responses], decisions) == (names, 3)


async def test_an_envelope_with_an_api_that_is_not_forwarded_is_refused() -> None:
    metadata = MetadataRequest(topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False)
    for inside in (frame_of(ApiKey.METADATA, 12, metadata), b"x"):
        answer = await FakeNode().ask(envelope.handle, ApiKey.ENVELOPE, sealed(inside))
        assert answer.error_code == ErrorCode.invalid_request


async def test_only_the_active_controller_accepts_an_envelope() -> None:
    node = FakeNode()
    node.quorum.is_active = False
    answer = await node.ask(envelope.handle, ApiKey.ENVELOPE, sealed(frame_of(ApiKey.DELETE_TOPICS, 6, delete("t"))))
    assert answer.error_code == ErrorCode.not_controller


async def test_a_version_that_is_not_accepted_is_refused() -> None:
    frame = bytearray(frame_of(ApiKey.DELETE_TOPICS, 6, delete("t")))
    frame[2:4] = (99).to_bytes(2, "big")
    answer = await FakeNode().ask(envelope.handle, ApiKey.ENVELOPE, sealed(bytes(frame)))
    assert (answer.error_code, answer.response_data) == (ErrorCode.invalid_request, None)


async def test_the_controller_charges_a_forwarded_change_and_returns_its_throttle_time() -> None:
    world = LimitedClient()
    world.node.context.throttle.quotas_changed({(("user", None),): {"controller_mutation_rate": 1.0}})

    async def forwarded(name: str, count: int) -> tuple[Header, bytes]:
        body = codec.write_request(
            ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=(new_topic(name, count, 1),), timeout=SOON)
        )
        frame = (request_head(ApiKey.CREATE_TOPICS, 7, 9, "c", len(body)) + body)[4:]
        request = EnvelopeRequest(request_data=frame, request_principal=None, client_host_address=b"\x7f\0\0\1")
        reply = await envelope.handle(world.node.context, world.node.request(ApiKey.ENVELOPE, 0, request))
        assert reply.response_data is not None
        return parse_header(memoryview(frame)), reply.response_data

    assert controller_throttle_ms(*await forwarded("first", 30)) == 0
    header, answer = await forwarded("second", 1)
    assert 18_000 < controller_throttle_ms(header, answer) <= 19_000
    _, position = parse_response_header(ApiKey.CREATE_TOPICS, 7, memoryview(answer))
    refused = codec.read_response(ApiKey.CREATE_TOPICS, 7, answer[position:])
    assert refused.topics[0].error_code.value == 89
