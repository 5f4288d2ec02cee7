"""Transactional writes wait for their coordinator, and no later batch overtakes them."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from penstock.coordinator.errors import NotCoordinator
from penstock.handlers.produce import ProduceHandler
from penstock.handlers.support.reply import Parked, ParkedWrite
from penstock.handlers.support.transaction_verification import CloseConnection
from penstock.metadata.records import BrokerEndpoint, PartitionRecord, RegisterBrokerRecord, TopicRecord
from penstock.model.errors import NotLeaderOrFollower, Refusal
from penstock.model.ids import TopicName
from penstock.server.session import ClientSession
from penstock.storage.verification_guard import VerificationGuard
from penstock.transactions.commands import AddPartitions, VerifyPartitions
from penstock.wire import codec
from penstock.wire.api import ApiKey
from penstock.wire.frame import Header
from tests.support.transaction_wire import Producer, produce_request
from tests.unit.controller.cluster import broker
from tests.unit.handlers.fakes import FakeNode

PRODUCER = Producer("tx", 7, 3)
LEADER = RegisterBrokerRecord(
    broker_id=2,
    incarnation_id=UUID(int=2),
    broker_epoch=2,
    end_points=(
        BrokerEndpoint(name="PLAINTEXT", host="inside2", port=9092, security_protocol=0),
        BrokerEndpoint(name="EXTERNAL", host="outside2", port=19092, security_protocol=0),
    ),
    rack=None,
    fenced=False,
    log_dirs=(),
)
LED_BY_2 = (
    TopicRecord(name=TopicName("t"), topic_id=UUID(int=7)),
    PartitionRecord(
        partition_id=0, topic_id=UUID(int=7), replicas=(1, 2), isr=(1, 2), leader=2, leader_epoch=4, partition_epoch=4
    ),
)


class OpenLog:
    """A log that knows which producers have an open transaction."""

    start_offset = 0

    def __init__(self) -> None:
        self.producer_state = self
        self.is_open = False
        self.verified: list[tuple[Any, ...]] = []

    def begin_verification(self, *producer: int, starts_at_zero: bool) -> VerificationGuard | None:
        self.verified.append((*producer, starts_at_zero))
        return None if self.is_open else VerificationGuard(producer[1], producer[2], starts_at_zero=starts_at_zero)


class WrittenPartition:
    marks = SimpleNamespace(high_watermark=1_000)
    is_leader = True

    def __init__(self) -> None:
        self.log = OpenLog()
        self.written: list[tuple[bytes, Any]] = []
        self.bytes_in = self.messages_in = 0

    def append(
        self, records: memoryview, *, acks: int, now_ms: int, transaction_verified: Any = None, prepared: Any = None
    ) -> Any:
        if not self.is_leader:
            raise NotLeaderOrFollower
        self.written.append((bytes(records), transaction_verified))

        class Appended:
            base_offset = last_offset = len(self.written) - 1
            log_append_time_ms = -1
            log_start_offset = 0

        return Appended


class HostedTopic:
    name = "t"
    internal = False
    bytes_in = bytes_out = messages_in = 0

    def __init__(self) -> None:
        self.partitions = {0: WrittenPartition(), 1: WrittenPartition()}


class Coordinator:
    """A coordinator that answers when the test wants."""

    def __init__(self) -> None:
        self.commands: list[Any] = []
        self.futures: list[asyncio.Future[Any]] = []
        self.answer_immediately: Any = None
        self.refusal: Refusal | None = None

    def submit(self, command: Any) -> "asyncio.Future[Any]":
        if self.refusal is not None:
            raise self.refusal
        self.commands.append(command)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.answer_immediately is not None:
            future.set_result(self.answer_immediately)
        self.futures.append(future)
        return future

    async def add_partitions(self, command: AddPartitions) -> Any:
        return await self.submit(command)


class ProduceToOneTopic:
    def __init__(self, settings: dict[str, str] | None = None) -> None:
        node = FakeNode(settings, brokers=[broker(1), LEADER])
        node.quorum.put(LED_BY_2)
        self.topic = HostedTopic()
        self.coordinator = Coordinator()
        context: Any = node.context
        context.transaction_coordinators = self.coordinator
        context.replicas.by_name = {b"t": self.topic}
        context.replicas.by_id = {}
        self.handler = ProduceHandler(context)

    def send(
        self, *, version: int = 12, partition: int = 0, producer: Producer = PRODUCER, listener: str = "PLAINTEXT",
        **more: Any,
    ) -> Any:  # fmt: skip
        _, _, body = produce_request(producer, "t", partition, ["x"], version=version, **more)
        return self.send_body(body, version=version, listener=listener)

    def send_body(self, body: Any, *, version: int = 12, listener: str = "PLAINTEXT") -> Any:
        frame = bytearray(codec.write_request(ApiKey.PRODUCE, version, body))
        view = memoryview(frame)
        reply = self.handler.handle(view, Header(ApiKey.PRODUCE, version, 1, "test", 0), listener)
        # The port reuses the memory.
        frame[:] = bytes(len(frame))
        return reply


@pytest.fixture
async def world() -> ProduceToOneTopic:
    return ProduceToOneTopic()


def answer_of(reply: Any, version: int = 12) -> Any:
    parts: Any = reply.parts if isinstance(reply, Parked) else reply
    assert parts is not None, "still waiting"
    return codec.read_response(ApiKey.PRODUCE, version, b"".join(parts)[8 + (version >= 9) :])


def code_of(reply: Any, version: int = 12) -> int:
    """Return the error code of the only partition of a response."""
    return int(answer_of(reply, version).responses[0].partition_responses[0].error_code)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def listen(parked: Any) -> list[str]:
    """Return the calls to a session, in order."""
    calls: list[str] = []
    parked.on_ready = lambda: calls.append("ready")
    parked.on_applied = lambda: calls.append("applied")
    return calls


async def test_the_first_write_waits_until_its_partition_is_added(world: ProduceToOneTopic) -> None:
    parked = world.send()
    assert isinstance(parked, ParkedWrite)
    calls = listen(parked)
    (command,) = world.coordinator.commands
    assert isinstance(command, AddPartitions)
    assert (command.partitions, command.client_version) == (frozenset({("t", 0)}), 2)
    await settle()
    assert world.topic.partitions[0].written == []
    world.coordinator.futures[0].set_result(0)
    await settle()
    (written,) = world.topic.partitions[0].written
    assert written[0].endswith(b"x\x00") and isinstance(written[1], VerificationGuard)
    assert calls == ["applied", "ready"]
    assert code_of(parked) == 0


async def test_a_write_with_an_immediate_answer_is_not_parked(world: ProduceToOneTopic) -> None:
    world.coordinator.answer_immediately = 0
    assert code_of(world.send()) == 0


async def test_an_open_transaction_is_not_verified_again(world: ProduceToOneTopic) -> None:
    world.topic.partitions[0].log.is_open = True
    assert code_of(world.send()) == 0
    assert world.coordinator.commands == []


@pytest.mark.parametrize(("version", "code"), [(3, 48), (10, 48), (11, 120)])
async def test_an_older_write_is_verified(world: ProduceToOneTopic, version: int, code: int) -> None:
    world.coordinator.answer_immediately = (0,)
    assert code_of(world.send(version=version), version) == 0
    world.coordinator.answer_immediately = (120,)
    assert code_of(world.send(version=version), version) == code
    assert all(isinstance(each, VerifyPartitions) for each in world.coordinator.commands)
    assert len(world.topic.partitions[0].written) == 1


async def test_verification_can_be_switched_off_for_older_writes_only() -> None:
    world = ProduceToOneTopic({"transaction.partition.verification.enable": "false"})
    assert code_of(world.send(version=11), 11) == 0
    assert world.topic.partitions[0].written[0][1] is True
    assert world.coordinator.commands == []
    assert isinstance(world.send(version=12), ParkedWrite)


@pytest.mark.parametrize(
    ("version", "outcome", "code"),
    [
        (12, 90, 47),
        (12, 49, 49),
        (12, NotCoordinator(), 19),
        (12, RuntimeError(), -1),
        (11, 51, 19),
        (11, NotCoordinator(), 19),
    ],
)
async def test_a_refusal_has_an_error_code_that_producers_know(
    world: ProduceToOneTopic, version: int, outcome: Any, code: int
) -> None:
    parked = world.send(version=version)
    listen(parked)
    if isinstance(outcome, Exception):
        world.coordinator.futures[0].set_exception(outcome)
    else:
        world.coordinator.futures[0].set_result(outcome)
    await settle()
    assert code_of(parked, version) == code
    assert world.topic.partitions[0].written == []


async def test_without_a_coordinator_the_client_gets_a_retriable_error(world: ProduceToOneTopic) -> None:
    world.coordinator.refusal = NotCoordinator()
    assert code_of(world.send()) == 19


async def test_a_partition_that_is_recovered_during_a_verification_gets_a_retriable_error(
    world: ProduceToOneTopic,
) -> None:
    recovering = world.topic.partitions.pop(1)
    (topic,), (other,) = (produce_request(PRODUCER, "t", index, ["x"])[2].topic_data for index in (0, 1))
    both = replace(topic, partition_data=(*topic.partition_data, *other.partition_data))
    parked = world.send_body(replace(produce_request(PRODUCER, "t", 0, ["x"])[2], topic_data=(both,)))
    listen(parked)
    world.topic.partitions[1] = recovering
    world.coordinator.futures[0].set_result(0)
    await settle()
    first, second = answer_of(parked).responses[0].partition_responses
    assert (int(first.error_code), int(second.error_code)) == (0, NotLeaderOrFollower.code)
    assert not recovering.written


async def test_a_write_waits_for_the_end_of_the_previous_transaction(world: ProduceToOneTopic) -> None:
    parked = world.send()
    listen(parked)
    world.coordinator.futures[0].set_result(51)
    await settle()
    assert parked.parts is None and len(world.coordinator.commands) == 2
    world.coordinator.futures[1].set_result(0)
    await settle()
    assert code_of(parked) == 0


@pytest.mark.parametrize("way", ["not verified", "verified immediately", "parked"])
async def test_a_producer_gets_the_leaders_address_for_its_listener(world: ProduceToOneTopic, way: str) -> None:
    partition = world.topic.partitions[0]
    partition.is_leader = False
    partition.log.is_open = way == "not verified"
    world.coordinator.answer_immediately = 0 if way == "verified immediately" else None
    sent_elsewhere = world.send(listener="EXTERNAL")
    if way == "parked":
        listen(sent_elsewhere)
        world.coordinator.futures[0].set_result(0)
        await settle()
    answer = answer_of(sent_elsewhere)
    assert int(answer.responses[0].partition_responses[0].error_code) == NotLeaderOrFollower.code
    assert [(each.node_id, each.host, each.port) for each in answer.node_endpoints] == [(2, "outside2", 19092)]


async def test_nothing_is_appended_for_a_client_that_is_gone(world: ProduceToOneTopic) -> None:
    parked = world.send()
    listen(parked)
    parked.abandon()
    world.coordinator.futures[0].set_result(0)
    await settle()
    assert world.topic.partitions[0].written == []


async def test_transactional_records_need_a_transactional_id(world: ProduceToOneTopic) -> None:
    assert code_of(world.send(names_id=False)) == 53
    assert code_of(world.send(is_transactional=False)) == 0


class PausingConnection:
    peer_host, peer_port = "here", 1

    def __init__(self) -> None:
        self.paused = False
        self.sent: list[Any] = []

    def pause_frames(self) -> None:
        self.paused = True

    def resume_frames(self) -> None:
        self.paused = False

    def send(self, parts: Any) -> None:
        self.sent.append(parts)

    send_now = send

    def close(self) -> None:
        self.sent.append("closed")


def session_with(reply: Any) -> tuple[ClientSession, PausingConnection]:
    class Replying:
        def dispatch(self, *frame: Any) -> Any:
            return reply

    connection: Any = PausingConnection()
    dispatcher: Any = Replying()
    session = ClientSession(connection, "PLAINTEXT", dispatcher, lambda: None)
    session.frame(memoryview(b""))
    return session, connection


async def test_a_connection_is_not_read_until_the_first_write_is_appended() -> None:
    parked = ParkedWrite()
    _, connection = session_with(parked)
    assert (connection.paused, connection.sent) == (True, [])
    assert parked.on_applied is not None
    parked.on_applied()
    assert (connection.paused, connection.sent) == (False, [])
    parked.ready([b"answer"])
    assert connection.sent == [[b"answer"]]


async def test_a_write_that_fails_without_a_response_closes_the_connection() -> None:
    parked = ParkedWrite()
    _, connection = session_with(parked)
    parked.fail()
    assert connection.sent == ["closed"]


async def test_a_failed_write_with_acks_0_closes_the_connection(world: ProduceToOneTopic) -> None:
    world.coordinator.refusal = NotCoordinator()
    with pytest.raises(CloseConnection):
        world.send(acks=0)
    world.coordinator.refusal = None
    parked = world.send(acks=0)
    calls = listen(parked)
    world.coordinator.futures[0].set_result(90)
    await settle()
    assert parked.failed and calls == ["ready"]
