"""Transactions with single requests, sent directly over one connection."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, NamedTuple, Self, cast

from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest
from kio.serial import entity_reader

from penstock.wire import codec
from penstock.wire.api import ApiKey
from penstock.wire.frame import parse_response_header, request_head
from penstock.wire.records import Record, encode_batch
from penstock.wire.schema import shape_of

TRANSACTION = 1
SAFE_DOWNGRADE = 2


class Producer(NamedTuple):
    """The identity of a producer."""

    transactional_id: str
    producer_id: int
    epoch: int


class Wire:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._socket = self._connected()
        self._last = 0

    def _connected(self) -> socket.socket:
        host, _, port = self._bootstrap.rpartition(":")
        return socket.create_connection((host, int(port)), timeout=60)

    def reconnect(self) -> None:
        self._socket.close()
        self._socket = self._connected()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    # -- any request -----------------------------------------------------------------------

    def send(self, *requests: tuple[int, int, Any]) -> None:
        """Send requests, key and version first, all together."""
        frames = b""
        for api_key, version, entity in requests:
            self._last += 1
            body = codec.write_request(api_key, version, entity)
            frames += request_head(api_key, version, self._last, "by-hand", len(body)) + body
        self._socket.sendall(frames)

    def receive(self, api_key: int, version: int) -> Any:
        (size,) = struct.unpack(">i", self._exactly(4))
        frame = memoryview(self._exactly(size))
        _, position = parse_response_header(api_key, version, frame)
        return codec.read_response(api_key, version, frame[position:])

    def ask(self, api_key: int, version: int, entity: Any) -> Any:
        self.send((api_key, version, entity))
        return self.receive(api_key, version)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise EOFError("the broker closed the connection")
            data += more
        return data

    def finalise(self, feature: str, level: int) -> int:
        """Set the level of a feature; return the error code."""
        update = FeatureUpdateKey(
            feature=feature, max_version_level=cast(Any, level), upgrade_type=cast(Any, SAFE_DOWNGRADE)
        )
        body = UpdateFeaturesRequest(timeout=cast(Any, timedelta(seconds=10)), feature_updates=(update,))
        return int(self.ask(ApiKey.UPDATE_FEATURES, 2, body).error_code)

    # -- transactions ----------------------------------------------------------------------

    def begin(self, transactional_id: str, *, timeout_ms: int = 60_000) -> Producer:
        """Find the coordinator and take over the id, waiting for an older transaction to end."""
        find: Any = FindCoordinatorRequest(key_type=cast(Any, TRANSACTION), coordinator_keys=(transactional_id,))
        assert self.ask(ApiKey.FIND_COORDINATOR, 4, find).coordinators[0].error_code == 0
        while True:
            reply = self.init(transactional_id, timeout_ms=timeout_ms)
            if reply.error_code != 51:
                assert reply.error_code == 0, reply
                return Producer(transactional_id, reply.producer_id, reply.producer_epoch)

    def init(self, transactional_id: str, *, timeout_ms: int = 60_000, version: int = 5) -> Any:
        timeout: Any = timedelta(milliseconds=timeout_ms)
        body = InitProducerIdRequest(transactional_id=cast(Any, transactional_id), transaction_timeout=timeout)
        return self.ask(ApiKey.INIT_PRODUCER_ID, version, body)

    def add(self, producer: Producer, topic: str, *partitions: int, version: int = 3) -> list[int]:
        """Return the error code of each partition."""
        body: Any = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=cast(Any, producer.transactional_id),
            v3_and_below_producer_id=cast(Any, producer.producer_id),
            v3_and_below_producer_epoch=cast(Any, producer.epoch),
            v3_and_below_topics=(AddPartitionsToTxnTopic(name=cast(Any, topic), partitions=cast(Any, partitions)),),
        )
        self.send((ApiKey.ADD_PARTITIONS_TO_TXN, version, body))
        (size,) = struct.unpack(">i", self._exactly(4))
        frame = memoryview(self._exactly(size))
        _, position = parse_response_header(ApiKey.ADD_PARTITIONS_TO_TXN, version, frame)
        # Its newest version has no field for these results, so they are decoded separately.
        layout = codec.response_class(ApiKey.ADD_PARTITIONS_TO_TXN, version)
        reply: Any = entity_reader(layout)(bytes(frame[position:]), 0)[0]
        (found,) = reply.results_by_topic_v3_and_below
        return [int(each.partition_error_code) for each in found.results_by_partition]

    def produce(
        self, producer: Producer, topic: str, partition: int, *values: str, sequence: int = 0, version: int = 12
    ) -> int:
        """Write one batch; return the error code."""
        self.send(produce_request(producer, topic, partition, values, sequence=sequence, version=version))
        return self.produced(version)[0]

    def produced(self, version: int = 12) -> tuple[int, int]:
        """Return the error code and the offset of a write that was sent."""
        reply = self.receive(ApiKey.PRODUCE, version)
        (partition,) = reply.responses[0].partition_responses
        return int(partition.error_code), int(partition.base_offset)

    def end(self, producer: Producer, *, commit: bool, version: int = 5) -> Any:
        return self.ask(*end_request(producer, commit=commit, version=version))


def end_request(producer: Producer, *, commit: bool, version: int = 5) -> tuple[int, int, Any]:
    body: Any = EndTxnRequest(
        transactional_id=cast(Any, producer.transactional_id),
        producer_id=cast(Any, producer.producer_id),
        producer_epoch=cast(Any, producer.epoch),
        committed=commit,
    )
    return ApiKey.END_TXN, version, body


def produce_request(
    producer: Producer,
    topic: str,
    partition: int,
    values: Sequence[str],
    *,
    sequence: int = 0,
    version: int = 12,
    names_id: bool = True,
    is_transactional: bool = True,
    acks: int = -1,
) -> tuple[int, int, Any]:
    batch = encode_batch(
        [Record(timestamp=1_700_000_000_000, key=None, value=value.encode()) for value in values],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        is_transactional=is_transactional,
    )
    layout = codec.request_class(ApiKey.PRODUCE, version)
    topics = _element(layout, "topic_data")
    body = layout(
        transactional_id=producer.transactional_id if names_id else None,
        acks=acks,
        timeout=timedelta(seconds=10),
        topic_data=(
            topics(name=topic, partition_data=(_element(topics, "partition_data")(index=partition, records=batch),)),
        ),
    )
    return ApiKey.PRODUCE, version, body


def _element(layout: type[Any], name: str) -> type[Any]:
    field = shape_of(layout).find(name)
    assert field is not None and field.entity is not None
    return field.entity
