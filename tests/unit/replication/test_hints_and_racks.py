"""Who is told to go elsewhere: producers and consumers at the wrong node (KIP-951), consumers with a rack (KIP-392)."""

import asyncio
from collections.abc import Callable
from typing import Any

from kio.schema.fetch.v17.response import FetchResponse
from kio.serial import entity_reader

from penstock.handlers.fetch import FetchHandler
from penstock.handlers.reply import Parked
from penstock.metadata.records import RegisterBrokerRecord
from penstock.model.ids import NodeId
from penstock.ports.network import FileSlice
from penstock.wire import codec
from penstock.wire.api import ApiKey
from penstock.wire.frame import parse_header, parse_response_header
from penstock.wire.records import Record, encode_batch
from tests.differential.entities import request_frame
from tests.unit.replication.replicated_partition import NOW_MS, TOPIC, TOPIC_ID, ReplicatedPartition

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
NOT_LEADER = 6


def body_of(api_key: int, version: int, reply: Any) -> memoryview:
    parts: Any = reply.parts if isinstance(reply, Parked) else reply
    frame = memoryview(
        b"".join(
            part.file.read(part.size, part.position) if isinstance(part, FileSlice) else bytes(part) for part in parts
        )
    )[4:]
    return frame[parse_response_header(api_key, version, frame)[1] :]


def fetch(world: ReplicatedPartition, node_id: int, *, version: int = 17, rack: str = "", offset: int = 0) -> Any:
    handler: FetchHandler = world.nodes[NodeId(node_id)].fetch
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 10_000}
    topic: dict[str, Any] = {"topic_id": TOPIC_ID} if version >= 13 else {"topic": TOPIC}
    fields = {"max_wait": 0, "min_bytes": 1, "max_bytes": 10_000, "rack_id": rack}
    if version < 15:
        fields["replica_id"] = -1
    if version < 11:
        del fields["rack_id"]
    data = request_frame("fetch", version, {**fields, "topics": [{**topic, "partitions": [partition]}]})
    frame = memoryview(bytearray(data[4:]))
    reply = handler.handle(frame, parse_header(frame), "PLAINTEXT")
    return reply if version != 17 else entity_reader(FetchResponse)(body_of(ApiKey.FETCH, 17, reply), 0)[0]


def with_racks(world: ReplicatedPartition) -> None:
    for node in world.nodes.values():
        broker = world.image.brokers[node.id]
        world.commit(
            RegisterBrokerRecord(
                broker_id=node.id,
                incarnation_id=broker.incarnation_id,
                broker_epoch=broker.epoch,
                end_points=broker.end_points,
                rack="abc"[node.id - 1],
                fenced=False,
                log_dirs=broker.log_dirs,
            )
        )


def story(tell: Callable[[ReplicatedPartition], Any], **settings: str) -> None:
    async def run() -> None:
        world = ReplicatedPartition(**settings)  # type: ignore[arg-type]
        with_racks(world)
        await world.settle()
        world.send(1, count=5)
        await world.settle(seconds=1)
        tell(world)

    asyncio.run(run())


def test_a_follower_serves_a_consumer_up_to_its_own_mark() -> None:
    def tell(world: ReplicatedPartition) -> None:
        row = fetch(world, 2).responses[0].partitions[0]
        assert int(row.error_code) == 0
        assert row.high_watermark == 5
        assert row.records

    story(tell)


def test_a_consumer_that_knows_no_followers_is_sent_away_by_one() -> None:
    def tell(world: ReplicatedPartition) -> None:
        reply = fetch(world, 2, version=10)
        answer = codec.read_response(ApiKey.FETCH, 10, body_of(ApiKey.FETCH, 10, reply))
        assert int(answer.responses[0].partitions[0].error_code) == NOT_LEADER

    story(tell)


def test_a_consumer_is_sent_to_the_replica_in_its_rack() -> None:
    def tell(world: ReplicatedPartition) -> None:
        row = fetch(world, 1, rack="c").responses[0].partitions[0]
        assert row.preferred_read_replica == 3
        assert not row.records
        own = fetch(world, 1, rack="a").responses[0].partitions[0]
        assert own.preferred_read_replica == -1
        assert own.records
        assert fetch(world, 1, rack="nowhere").responses[0].partitions[0].preferred_read_replica == -1

    story(tell, replica_selector_class=RACK_AWARE)


def test_without_a_selector_the_leader_serves_everybody() -> None:
    def tell(world: ReplicatedPartition) -> None:
        assert fetch(world, 1, rack="c").responses[0].partitions[0].preferred_read_replica == -1

    story(tell)


def test_a_replica_outside_the_set_is_recommended_to_nobody() -> None:
    def tell(world: ReplicatedPartition) -> None:
        world.elect(1, isr=(1, 2))
        world.hear()
        assert fetch(world, 1, rack="c").responses[0].partitions[0].preferred_read_replica == -1

    story(tell, replica_selector_class=RACK_AWARE)


def test_a_producer_at_the_wrong_node_is_told_who_leads_and_where() -> None:
    def tell(world: ReplicatedPartition) -> None:
        sealed = encode_batch([Record(timestamp=NOW_MS, value=b"v")])
        rows = [{"name": TOPIC, "partition_data": [{"index": 0, "records": sealed}]}]
        data = request_frame("produce", 12, {"acks": -1, "timeout": 1000, "topic_data": rows})
        frame = memoryview(bytearray(data[4:]))
        reply = world.nodes[NodeId(3)].produce.handle(frame, parse_header(frame), "PLAINTEXT")
        answer = codec.read_response(ApiKey.PRODUCE, 12, body_of(ApiKey.PRODUCE, 12, reply))
        row = answer.responses[0].partition_responses[0]
        assert int(row.error_code) == NOT_LEADER
        assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (1, 0)
        assert [(each.node_id, each.host, each.port, each.rack) for each in answer.node_endpoints] == [
            (1, "node1", 1, "a")
        ]

    story(tell)


def test_a_consumer_with_an_older_epoch_is_told_who_leads() -> None:
    def tell(world: ReplicatedPartition) -> None:
        world.elect(2)
        world.hear()
        body = {"max_wait": 0, "min_bytes": 1, "max_bytes": 1000, "topics": [{"topic_id": TOPIC_ID, "partitions": [
            {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000, "current_leader_epoch": 0}]}]}  # fmt: skip
        frame = memoryview(bytearray(request_frame("fetch", 17, body)[4:]))
        reply = world.nodes[NodeId(1)].fetch.handle(frame, parse_header(frame), "PLAINTEXT")
        answer = entity_reader(FetchResponse)(body_of(ApiKey.FETCH, 17, reply), 0)[0]
        row = answer.responses[0].partitions[0]
        assert row.current_leader.leader_id == 2
        assert [each.node_id for each in answer.node_endpoints] == [2]

    story(tell)
