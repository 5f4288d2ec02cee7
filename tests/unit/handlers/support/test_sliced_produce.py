"""Produce requests that take long: appended in order, in slices, and only for connected clients."""

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.handlers.produce import ParkedProduce, ProduceHandler
from penstock.handlers.support.reply import Parked, ParkedWrite
from penstock.handlers.support.sliced_produce import BATCH_COST, SLICE_SIZE
from penstock.model.errors import InvalidRecord
from penstock.model.job import Job
from penstock.storage.validate import Prepared, Unprepared
from penstock.wire import codec
from penstock.wire.api import ApiKey
from penstock.wire.frame import Header
from penstock.wire.records import Record, encode_batch
from tests.unit.handlers.fakes import FakeNode

VERSION = 9
LONG = 500


class OpenedLog:
    """A log that requires parsing the records of every batch that is written with `steps`."""

    start_offset = 0
    settings: Any = object()

    def __init__(self, world: "SlicedWrites", index: int) -> None:
        self.world = world
        self.index = index
        self.steps = 0
        self.refusal: Exception | None = None

    def prepare(self, records: memoryview, now_ms: int) -> Job[Prepared]:
        for _ in range(self.steps):
            self.world.log.append(f"step {self.index}")
            yield None
        if self.refusal is not None:
            raise self.refusal
        return Prepared(records, self.settings)


class OpenedPartition:
    marks = SimpleNamespace(high_watermark=0)

    def __init__(self, world: "SlicedWrites", index: int) -> None:
        self.world = world
        self.index = index
        self.log = OpenedLog(world, index)
        self.bytes_in = self.messages_in = 0
        self.waiting: list[Any] = []
        self.written: list[bytes] = []

    def append(self, records: memoryview, *, prepared: Prepared | None = None, **_: Any) -> Any:
        if self.log.steps and (prepared is None or prepared.settings is not self.log.settings):
            raise Unprepared
        self.world.log.append(f"write {self.index}")
        self.written.append(bytes(records))

        class Appended:
            base_offset = last_offset = len(self.written) - 1
            log_append_time_ms = -1
            log_start_offset = 0

        return Appended

    def wait_durable(self, waiting: Any) -> None:
        self.waiting.append(waiting)


class HostedTopic:
    name = "t"
    internal = False
    bytes_out = 0

    def __init__(self, world: "SlicedWrites") -> None:
        self.partitions = {index: OpenedPartition(world, index) for index in range(400)}


class SlicedWrites:
    def __init__(self) -> None:
        self.node = FakeNode()
        self.log: list[str] = []
        self.topic = HostedTopic(self)
        context: Any = self.node.context
        context.replicas.by_name = {b"t": self.topic}
        self.handler = ProduceHandler(context)

    def send(self, *indexes: int, acks: int = 1, value: bytes = b"v") -> Any:
        batch = encode_batch([Record(timestamp=1, key=b"k", value=value)])
        request = codec.request_class(ApiKey.PRODUCE, VERSION)
        from kio.schema.produce.v9 import request as wire

        body = request(
            transactional_id=None,
            acks=acks,
            timeout=self.timeout(),
            topic_data=(
                wire.TopicProduceData(
                    name="t",  # type: ignore[arg-type]
                    partition_data=tuple(
                        wire.PartitionProduceData(index=index, records=batch)  # type: ignore[arg-type]
                        for index in indexes
                    ),
                ),
            ),
        )
        frame = bytearray(codec.write_request(ApiKey.PRODUCE, VERSION, body))
        reply = self.handler.handle(memoryview(frame), Header(ApiKey.PRODUCE, VERSION, 1, "test", 0))
        # The port reuses the memory.
        frame[:] = bytes(len(frame))
        if isinstance(reply, Parked) and reply.parts is None:
            reply.on_ready = lambda: self.log.append("answered")
            if isinstance(reply, ParkedWrite):
                reply.on_applied = lambda: self.log.append("applied")
        return reply

    def timeout(self) -> Any:
        from datetime import timedelta

        return timedelta(seconds=1)

    def turn(self) -> int:
        """Run jobs for one turn; return how many steps of preparation it had."""
        before = len(self.log)
        timers, self.node.clock.timers = self.node.clock.timers, []
        for timer in timers:
            if timer.callback is not None:
                timer.callback()
        return sum(entry.startswith("step") for entry in self.log[before:])

    def settle(self) -> None:
        while self.node.clock.timers:
            self.turn()

    @staticmethod
    def codes(reply: Any) -> list[int]:
        parts: Any = reply.parts if isinstance(reply, Parked) else reply
        answer = codec.read_response(ApiKey.PRODUCE, VERSION, b"".join(parts)[9:])
        return [int(each.error_code) for each in answer.responses[0].partition_responses]


def test_a_batch_that_is_parsed_quickly_is_appended_immediately() -> None:
    world = SlicedWrites()
    world.topic.partitions[0].log.steps = 3
    assert world.codes(world.send(0)) == [0]
    assert world.log == ["step 0"] * 3 + ["write 0"]


def test_a_long_batch_is_appended_later_and_the_rest_of_its_request_after_it() -> None:
    world = SlicedWrites()
    world.topic.partitions[1].log.steps = LONG
    reply = world.send(0, 1, 2)
    assert isinstance(reply, ParkedWrite)
    assert [entry for entry in world.log if not entry.startswith("step")] == ["write 0"]
    world.settle()
    entries = [entry for entry in world.log if not entry.startswith("step")]
    assert entries == ["write 0", "write 1", "write 2", "applied", "answered"]
    assert world.codes(reply) == [0, 0, 0]
    (kept,) = world.topic.partitions[2].written
    assert len(kept) > 61 and any(kept), "the frame was kept"


def test_no_turn_takes_more_than_its_share_of_a_long_job() -> None:
    world = SlicedWrites()
    world.topic.partitions[0].log.steps = LONG
    world.send(0)
    most = 0
    while world.node.clock.timers:
        most = max(most, world.turn())
    assert 0 < most <= 64


def test_two_clients_with_long_batches_take_turns() -> None:
    world = SlicedWrites()
    for index in (0, 1):
        world.topic.partitions[index].log.steps = LONG
        world.send(index)
    world.log.clear()
    world.turn()
    assert world.log[:4] in (["step 0", "step 1"] * 2, ["step 1", "step 0"] * 2)


def test_a_batch_that_fails_parsing_is_refused_and_the_rest_is_appended() -> None:
    world = SlicedWrites()
    world.topic.partitions[0].log.steps = LONG
    world.topic.partitions[0].log.refusal = InvalidRecord("no")
    reply = world.send(0, 1)
    world.settle()
    assert world.codes(reply) == [InvalidRecord.code, 0]


def test_a_batch_is_parsed_again_if_settings_change_meanwhile() -> None:
    world = SlicedWrites()
    log = world.topic.partitions[0].log
    log.steps = LONG
    reply = world.send(0)
    world.turn()
    log.settings = object()
    world.settle()
    assert world.codes(reply) == [0]
    assert world.log.count("write 0") == 1


def test_the_batch_of_a_client_that_left_is_not_appended() -> None:
    world = SlicedWrites()
    world.topic.partitions[0].log.steps = LONG
    reply = world.send(0)
    world.turn()
    reply.abandon()
    world.settle()
    assert "write 0" not in world.log
    assert world.node.context.scheduler.unfinished_count == 0


def test_the_batch_of_a_client_with_acks_0_is_appended_after_it_left() -> None:
    world = SlicedWrites()
    world.topic.partitions[0].log.steps = LONG
    reply = world.send(0, acks=0)
    world.turn()
    reply.abandon()
    world.settle()
    assert "write 0" in world.log


def test_acks_all_is_answered_when_the_batches_of_all_slices_are_durable() -> None:
    world = SlicedWrites()
    world.topic.partitions[1].log.steps = LONG
    reply = world.send(0, 1, acks=-1)
    (first,) = world.topic.partitions[0].waiting
    first.done(0)
    assert reply.parts is None
    world.settle()
    assert world.log[-1] == "applied" and reply.parts is None
    (second,) = world.topic.partitions[1].waiting
    second.done(0)
    assert world.codes(reply) == [0, 0]


def test_many_partitions_are_appended_in_slices_without_parsing() -> None:
    world = SlicedWrites()
    count = 2 * SLICE_SIZE // BATCH_COST
    reply = world.send(*range(count))
    assert isinstance(reply, ParkedWrite)
    assert len(world.log) <= SLICE_SIZE // BATCH_COST
    world.settle()
    assert [entry for entry in world.log if entry.startswith("write")] == [f"write {index}" for index in range(count)]
    assert world.codes(reply) == [0] * count


@pytest.mark.parametrize("acks", (1, -1))
def test_an_ordinary_request_is_not_parked_for_slices(acks: int) -> None:
    world = SlicedWrites()
    assert not isinstance(world.send(0, 1, acks=acks), ParkedWrite)
    assert isinstance(world.send(0, acks=-1), ParkedProduce)
