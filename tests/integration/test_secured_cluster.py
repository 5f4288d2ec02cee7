"""Three nodes that authenticate each other, and clients that pretend to be nodes."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.schema.fetch.v12.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

from penstock.wire import codec
from penstock.wire.api import ApiKey
from penstock.wire.frame import request_head
from tests.integration.nodes import CLUSTER_ID, Cluster, Member
from tests.support.eventually import eventually_here
from tests.support.ports import HOST, free_ports
from tests.support.security import Certificates, jaas


class SecuredCluster(Cluster):
    """Three nodes with a listener for nodes and one for clients."""

    def __init__(self, folder: Path, protocol: str, certificates: Certificates) -> None:
        ports, client_ports = free_ports(3), free_ports(3)
        listed = ",".join(f"{index + 1}@{HOST}:{port}" for index, port in enumerate(ports))
        self.protocol = protocol
        self.client_ports = client_ports
        self.node_ports = ports
        login = jaas(node="secret", eve="eve").replace("required ", 'required username="node" password="secret" ')
        self.members = {
            index + 1: Member({
                "node.id": str(index + 1),
                "cluster.id": CLUSTER_ID,
                "log.dirs": str(folder / str(index + 1)),
                "listeners": f"NODES://{HOST}:{port},CLIENTS://{HOST}:{client_ports[index]}",
                "listener.security.protocol.map": f"NODES:{protocol},CLIENTS:SASL_PLAINTEXT",
                "inter.broker.listener.name": "NODES",
                "controller.quorum.voters": listed,
                "log.reserve.bytes": "0",
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.nodes.plain.sasl.jaas.config": login,
                "listener.name.clients.plain.sasl.jaas.config": jaas(eve="eve"),
                "listener.name.nodes.ssl.client.auth": "required",
                "connection.failed.authentication.delay.ms": "0",
                **certificates.broker_options(),
            })
            for index, port in enumerate(ports)
        }  # fmt: skip


@pytest.fixture(params=["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SecuredCluster]:
    made = SecuredCluster(tmp_path, request.param, Certificates(tmp_path))
    async with made:
        yield made


class Client:
    """A raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int, context: ssl.SSLContext | None = None) -> Client:
        return cls(*await asyncio.open_connection(HOST, port, ssl=context))

    async def ask(self, api_key: int, version: int, request: Any) -> bytes | None:
        """Return the response; None if the broker closes the connection."""
        body = codec.write_request(api_key, version, request)
        self._writer.write(request_head(api_key, version, 1, "penstock-node-2", len(body)) + body)
        try:
            (size,) = struct.unpack(">i", await asyncio.wait_for(self._reader.readexactly(4), 30))
            return await asyncio.wait_for(self._reader.readexactly(size), 30)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def login(self, name: str, password: str) -> None:
        from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
        from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

        assert await self.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN")) is not None
        token = f"\0{name}\0{password}".encode()
        answer = await self.ask(ApiKey.SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=token))
        assert answer is not None
        assert answer[4:6] == b"\0\0", answer

    def close(self) -> None:
        self._writer.close()


def replicate(bootstrap: str) -> None:
    """Create a topic with three replicas, and produce to it with acks=all."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "eve",
        "sasl.password": "eve",
    }
    topic = NewTopic("replicated", 3, 3, config={"min.insync.replicas": "3"})
    admin = AdminClient(settings)
    for future in admin.create_topics([topic]).values():
        future.result(60)
    failed: list[object] = []
    producer = Producer({**settings, "acks": "all", "message.timeout.ms": 60000})
    for number in range(30):
        producer.produce(
            "replicated", b"x" * 1000, str(number), on_delivery=lambda error, _: failed.append(error) if error else None
        )
    assert producer.flush(60) == 0
    assert not failed


def replica_fetch(topic: str) -> FetchRequest:
    partition = FetchPartition(
        partition=i32(0), fetch_offset=i64(1000), partition_max_bytes=i32(1000), current_leader_epoch=i32(-1)
    )
    return FetchRequest(
        replica_id=BrokerId(2),
        max_wait=i32Timedelta.parse(timedelta(0)),
        min_bytes=i32(0),
        isolation_level=i8(0),
        topics=(FetchTopic(topic=TopicName(topic), partitions=(partition,)),),
        forgotten_topics_data=(),
    )


async def test_nodes_replicate_and_clients_cannot_act_as_nodes(cluster: SecuredCluster) -> None:
    """CVE-2018-1288: a client fetched as a replica."""
    from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest

    active = await cluster.until_active()
    await eventually_here(lambda: len(list(active.quorum.image.live_brokers())) == 3)
    registered = next(iter(active.quorum.image.brokers.values()))
    assert {each.name: each.security_protocol for each in registered.end_points}["CLIENTS"] == 2
    heartbeat = BrokerHeartbeatRequest(
        broker_id=BrokerId(2),
        broker_epoch=i64(1),
        current_metadata_offset=i64(0),
        want_fence=True,
        want_shut_down=False,
    )
    for port in cluster.client_ports:
        for api_key, version, request in (
            (ApiKey.BROKER_HEARTBEAT, 1, heartbeat),
            (ApiKey.FETCH, 12, replica_fetch("t")),
        ):
            eve = await Client.open(port)
            await eve.login("eve", "eve")
            assert await eve.ask(api_key, version, request) is None, "the connection is closed"
            eve.close()
    assert len(list(active.quorum.image.live_brokers())) == 3
    await asyncio.to_thread(replicate, f"{HOST}:{cluster.client_ports[0]}")
    if cluster.protocol == "SASL_PLAINTEXT":
        # A user that is no node, on the listener for nodes.
        eve = await Client.open(cluster.node_ports[0])
        await eve.login("eve", "eve")
        assert await eve.ask(ApiKey.BROKER_HEARTBEAT, 1, heartbeat) is None
        eve.close()
