"""Tests of delayed requests: repeated on a new connection during a later transaction, which they must not affect.

The network may deliver a request minutes after its client has given up and retried (invariants 39 and 40).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple, cast

import pytest
from confluent_kafka import Consumer, IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.txn_offset_commit.v5.request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

from penstock.testing import Broker
from penstock.wire.api import ApiKey
from tests.integration.conftest import GROUP_SETTINGS
from tests.support.eventually import eventually
from tests.support.sharing import Sharing
from tests.support.transaction_wire import Producer, Wire, end_request, produce_request

SETTINGS = {
    **GROUP_SETTINGS,
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}
PARTITIONS = 3
TRANSACTIONS = 25
GROUP = 0
CONCURRENT_TRANSACTIONS = 51

Frame = tuple[int, int, Any]


class Sent(NamedTuple):
    """A request that the network has kept."""

    frame: Frame
    producer: Producer
    partition: int | None = None
    is_commit: bool | None = None


class Protocol(NamedTuple):
    """The API versions that a client uses."""

    produce: int
    offsets: int
    end: int
    adds: bool


VERSION_TWO = Protocol(produce=12, offsets=5, end=5, adds=False)
OLD = Protocol(produce=11, offsets=4, end=4, adds=True)
OLDER = Protocol(produce=7, offsets=2, end=1, adds=True)


def with_settings() -> Broker:
    return Broker(SETTINGS)


@pytest.fixture
def broker(sharing: Sharing) -> Broker:
    return sharing.of(with_settings)


class Client:
    """Successive producers with the same transactional id, and a copy of all their requests."""

    def __init__(self, broker: Broker, name: str, protocol: Protocol) -> None:
        self.bootstrap = broker.bootstrap
        self.topic = self.group = self._id = name
        self.protocol = protocol
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(name, PARTITIONS)])[name].result(60)
        self.wire = Wire(self.bootstrap)
        find: Any = FindCoordinatorRequest(key_type=cast(Any, GROUP), coordinator_keys=(name,))
        assert self.wire.ask(ApiKey.FIND_COORDINATOR, 4, find).coordinators[0].error_code == 0
        self.kept: list[Sent] = []
        self.written: Counter[str] = Counter()
        self.committed: Counter[str] = Counter()
        self.offset = -1
        self.open: list[str] = []
        self.open_offset: int | None = None
        self.added: set[int] = set()
        self.begin()

    def begin(self) -> None:
        self.producer = self.wire.begin(self._id)
        self._sequences = [0] * PARTITIONS

    # -- the client ----------------------------------------------------------------------

    def write(self, value: str, partition: int) -> None:
        if self.protocol.adds and partition not in self.added:
            self._do(Sent((ApiKey.ADD_PARTITIONS_TO_TXN, 3, self._addition(partition)), self.producer, partition))
        self.added.add(partition)
        frame = produce_request(
            self.producer,
            self.topic,
            partition,
            [value],
            sequence=self._sequences[partition],
            version=self.protocol.produce,
        )
        self._do(Sent(frame, self.producer, partition))
        self._sequences[partition] += 1
        self.open.append(value)
        self.written[value] += 1

    def send_offset(self, offset: int) -> None:
        if self.protocol.adds:
            body: Any = AddOffsetsToTxnRequest(**self._who(), group_id=cast(Any, self.group))
            self._do(Sent((ApiKey.ADD_OFFSETS_TO_TXN, 3, body), self.producer))
        self._do(Sent((ApiKey.TXN_OFFSET_COMMIT, self.protocol.offsets, self._offsets(offset)), self.producer))
        self.open_offset = offset

    def end(self, *, commit: bool) -> None:
        frame = end_request(self.producer, commit=commit, version=self.protocol.end)
        reply = self._do(Sent(frame, self.producer, is_commit=commit))
        if commit:
            self.committed.update(self.open)
            self.offset = self.offset if self.open_offset is None else self.open_offset
        if not self.protocol.adds:
            self.producer = self.producer._replace(producer_id=reply.producer_id, epoch=reply.producer_epoch)
            self._sequences = [0] * PARTITIONS
        self.open, self.open_offset, self.added = [], None, set()

    def _do(self, sent: Sent) -> Any:
        while True:
            reply = answer(self.wire, sent.frame)
            if code_of(sent.frame, reply) != CONCURRENT_TRANSACTIONS:
                break
        assert code_of(sent.frame, reply) == 0, reply
        self.kept.append(sent)
        return reply

    # -- the network ---------------------------------------------------------------------

    def arrives_late(self, sent: Sent) -> int:
        with Wire(self.bootstrap) as other:
            return code_of(sent.frame, answer(other, sent.frame))

    # -- requests ------------------------------------------------------------------------

    def _who(self) -> dict[str, Any]:
        return {
            "transactional_id": self.producer.transactional_id,
            "producer_id": self.producer.producer_id,
            "producer_epoch": self.producer.epoch,
        }

    def _addition(self, partition: int) -> Any:
        topic = AddPartitionsToTxnTopic(name=cast(Any, self.topic), partitions=cast(Any, (partition,)))
        return AddPartitionsToTxnRequest(
            **{f"v3_and_below_{name}": value for name, value in self._who().items()}, v3_and_below_topics=(topic,)
        )

    def _offsets(self, offset: int) -> Any:
        place = TxnOffsetCommitRequestPartition(
            partition_index=cast(Any, 0), committed_offset=cast(Any, offset), committed_metadata=None
        )
        topic = TxnOffsetCommitRequestTopic(name=cast(Any, self.topic), partitions=(place,))
        return TxnOffsetCommitRequest(**self._who(), group_id=cast(Any, self.group), topics=(topic,))

    # -- other clients -------------------------------------------------------------------

    def check(self) -> None:
        eventually(self.is_at_rest)
        assert self._read("read_committed") == self.committed
        assert self._read("read_uncommitted") == self.written, "nothing was written twice"
        assert self._group_offset() == self.offset
        self.wire.__exit__(None, None, None)

    def is_at_rest(self) -> bool:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        places = [(self.topic, index) for index in range(PARTITIONS)]
        places += [("__consumer_offsets", index) for index in range(2)]
        asked = {TopicPartition(*place): OffsetSpec.latest() for place in places}
        ends = [
            [future.result(60).offset for future in admin.list_offsets(asked, isolation_level=isolation).values()]
            for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        ]
        return ends[0] == ends[1]

    def _consumer(self, isolation: str) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )

    def _read(self, isolation: str) -> Counter[str]:
        consumer = self._consumer(isolation)
        consumer.assign([TopicPartition(self.topic, index, 0) for index in range(PARTITIONS)])
        seen: Counter[str] = Counter()
        ends = 0
        while ends < PARTITIONS:
            message = consumer.poll(20)
            assert message is not None, "the end was not reached"
            if message.error():
                ends += 1
            else:
                seen[(message.value() or b"").decode()] += 1
        consumer.close()
        return seen

    def _group_offset(self) -> int:
        consumer = self._consumer("read_committed")
        (place,) = consumer.committed([TopicPartition(self.topic, 0)], 20)
        consumer.close()
        return max(int(place.offset), -1)


def answer(wire: Wire, frame: Frame) -> Any:
    api_key, version, entity = frame
    if api_key == ApiKey.ADD_PARTITIONS_TO_TXN:
        (code,) = wire.add(
            Producer(
                entity.v3_and_below_transactional_id,
                entity.v3_and_below_producer_id,
                entity.v3_and_below_producer_epoch,
            ),
            entity.v3_and_below_topics[0].name,
            *entity.v3_and_below_topics[0].partitions,
            version=version,
        )
        return code
    return wire.ask(api_key, version, entity)


def code_of(frame: Frame, reply: Any) -> int:
    match frame[0]:
        case ApiKey.ADD_PARTITIONS_TO_TXN:
            return int(reply)
        case ApiKey.PRODUCE:
            return int(reply.responses[0].partition_responses[0].error_code)
        case ApiKey.TXN_OFFSET_COMMIT:
            return int(reply.topics[0].partitions[0].error_code)
        case _:
            return int(reply.error_code)


def steps(client: Client, random: Random, number: int) -> Iterator[None]:
    """Run a transaction step by step; delayed requests arrive between the steps."""
    for count in range(random.randint(1, 4)):
        client.write(f"{number}/{count}", random.randrange(PARTITIONS))
        yield
    if random.random() < 0.6:
        client.send_offset(number)
        yield
    client.end(commit=random.random() < 0.6)
    yield


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_with_version_two_no_late_request_affects_a_later_transaction(broker: Broker, seed: int) -> None:
    random = Random(seed)
    client = Client(broker, f"version-two-{seed}", VERSION_TWO)
    late = 0
    for number in range(TRANSACTIONS):
        for _ in steps(client, random, number):
            old = [sent for sent in client.kept if sent.producer != client.producer]
            for sent in random.sample(old, min(len(old), 3)):
                code = client.arrives_late(sent)
                late += 1
                # Only the end of the last transaction is acknowledged again, with its outcome.
                assert code != 0 or sent.frame[0] == ApiKey.END_TXN, sent
                if code == 0:
                    assert sent.producer.epoch == client.producer.epoch - 1 and not client.open
    assert late > TRANSACTIONS
    client.check()


@pytest.mark.parametrize("protocol", [OLD, OLDER], ids=["old", "older"])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_no_request_of_a_replaced_producer_takes_effect(broker: Broker, seed: int, protocol: Protocol) -> None:
    """Check it with the old protocol too: a new producer has another epoch."""
    random = Random(seed)
    client = Client(broker, f"replaced-{protocol.produce}-{seed}", protocol)
    for number in range(TRANSACTIONS):
        for _ in steps(client, random, number):
            old = [sent for sent in client.kept if sent.producer != client.producer]
            for sent in random.sample(old, min(len(old), 3)):
                assert client.arrives_late(sent) != 0, sent
        if number % 3 == 2:
            client.begin()
    client.check()


@pytest.mark.parametrize("protocol", [OLD, OLDER], ids=["old", "older"])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_with_the_old_protocol_late_writes_and_commits_are_rejected(
    broker: Broker, seed: int, protocol: Protocol
) -> None:
    """All transactions of a producer share an epoch: only the state shows whether a request is late."""
    random = Random(seed)
    client = Client(broker, f"shared-{protocol.produce}-{seed}", protocol)
    for number in range(TRANSACTIONS):
        before = len(client.kept)
        for _ in steps(client, random, number):
            for sent in random.sample(client.kept[:before], min(before, 4)):
                _late_in_the_same_epoch(client, sent)
    client.check()


def _late_in_the_same_epoch(client: Client, sent: Sent) -> None:
    match sent.frame[0]:
        case ApiKey.PRODUCE:
            code = client.arrives_late(sent)
            # For a partition of the open transaction: recognized by its sequence, and at most acknowledged again.
            assert code != 0 or sent.partition in client.added, sent
        case ApiKey.TXN_OFFSET_COMMIT if client.open_offset is None:
            assert client.arrives_late(sent) != 0, sent
        case ApiKey.ADD_PARTITIONS_TO_TXN if client.open:
            # The only effect is one more partition that gets a marker.
            assert client.arrives_late(sent) == 0
            assert sent.partition is not None
            client.added.add(sent.partition)
        case ApiKey.END_TXN if not client.open and client.kept[-1].frame[0] == ApiKey.END_TXN:
            code = client.arrives_late(sent)
            assert code in (0, 48, CONCURRENT_TRANSACTIONS)
            assert code != 0 or sent.is_commit == client.kept[-1].is_commit


def test_a_partition_added_late_blocks_readers_until_the_timeout(broker: Broker) -> None:
    """Same as in Kafka: the old protocol cannot distinguish it from the first request of the next transaction."""
    client = Client(broker, "added-late", OLD)
    client.producer = client.wire.begin("added-late", timeout_ms=1_000)
    client.write("a", 0)
    client.end(commit=True)
    addition = client.kept[0]
    eventually(client.is_at_rest)
    assert client.arrives_late(addition) == 0
    # The timeout has aborted it, and the next producer continues.
    client.begin()
    client.write("b", 0)
    client.end(commit=True)
    client.check()
