"""A cluster moves from plain text to TLS, one node at a time, while clients use it."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from tests.integration.nodes import CLUSTER_ID, Cluster, Member
from tests.support.eventually import eventually_here
from tests.support.ports import HOST, free_ports
from tests.support.security import Certificates


class UpgradedCluster(Cluster):
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        certificates = Certificates(folder)
        self.authority = certificates.authority
        self._certificates = certificates.broker_options()
        self._plain, self._tls, self._clients = free_ports(3), free_ports(3), free_ports(3)
        self.members = {node: Member(self.options(node, step=0)) for node in (1, 2, 3)}

    def is_whole(self) -> bool:
        """Return whether all brokers are up and all replicas in sync."""
        if self.active is None:
            return False
        image = self.active.quorum.image
        partitions = [partition for topic in image.topics.values() for partition in topic.partitions]
        return len(list(image.live_brokers())) == 3 and all(
            len(partition.isr) == len(partition.replicas) for partition in partitions
        )

    def client_properties(self, *, tls: bool) -> dict[str, Any]:
        """Return the properties of a client that uses plain text, or TLS."""
        ports = self._clients if tls else self._plain
        properties = {"bootstrap.servers": ",".join(f"{HOST}:{port}" for port in ports), "log_level": 0}
        if tls:
            properties |= {"security.protocol": "SSL", "ssl.ca.location": str(self.authority)}
        return properties

    def options(self, node: int, step: int) -> dict[str, str]:
        """Return the options of a node: 0 plain text, 1 with all listeners, 2 using TLS, 3 with TLS only."""
        plain = f"PLAINTEXT://{HOST}:{self._plain[node - 1]}"
        tls = f"NODES://{HOST}:{self._tls[node - 1]},CLIENTS://{HOST}:{self._clients[node - 1]}"
        voters = self._plain if step < 2 else self._tls
        options = {
            "node.id": str(node),
            "cluster.id": CLUSTER_ID,
            "log.dirs": str(self._folder / str(node)),
            "listeners": (plain, f"{plain},{tls}", f"{plain},{tls}", tls)[step],
            "controller.quorum.voters": ",".join(f"{index + 1}@{HOST}:{port}" for index, port in enumerate(voters)),
            "log.reserve.bytes": "0",
        }
        if step:
            options |= {
                **self._certificates,
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,NODES:SSL,CLIENTS:SSL",
                "listener.name.nodes.ssl.client.auth": "required",
            }
        if step >= 2:
            options["inter.broker.listener.name"] = "NODES"
        if step in (1, 2):
            options["node.listener.names"] = ("NODES", "PLAINTEXT")[step - 1]
        return options


class Traffic:
    """A producer and a consumer in threads. Every record is acknowledged by all replicas in sync."""

    def __init__(self, properties: dict[str, Any], first: int) -> None:
        self._properties = properties
        self._stopping = threading.Event()
        self._failed: list[str] = []
        self._next = first
        self.acknowledged: list[str] = []
        self._producing = threading.Thread(target=self._produce, daemon=True)
        self._producing.start()

    def _produce(self) -> None:
        from confluent_kafka import Producer

        producer = Producer({**self._properties, "enable.idempotence": True, "message.timeout.ms": 120_000})

        def on_delivery(error: object, message: Any) -> None:
            if error is not None:
                self._failed.append(str(error))
            else:
                self.acknowledged.append(message.value().decode())

        while not self._stopping.is_set():
            producer.produce(TOPIC, str(self._next), on_delivery=on_delivery)
            self._next += 1
            producer.poll(0.01)
        producer.flush(120)

    async def stop(self) -> int:
        """Wait for all acknowledgements; return the number after the last one that was sent."""
        self._stopping.set()
        await asyncio.to_thread(self._producing.join)
        assert not self._failed, self._failed[:3]
        return self._next


TOPIC = "orders"


def create(properties: dict[str, Any]) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = NewTopic(TOPIC, 3, 3, config={"min.insync.replicas": "2"})
    admin = AdminClient(properties)  # it must live longer than its futures
    admin.create_topics([topic])[TOPIC].result(60)


def read_all(properties: dict[str, Any], count: int) -> Counter[str]:
    from confluent_kafka import Consumer

    consumer = Consumer({**properties, "group.id": "readers", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([TOPIC])
        found: Counter[str] = Counter()
        while sum(found.values()) < count:
            message = consumer.poll(60)
            assert message is not None and message.error() is None, message and message.error()
            found[(message.value() or b"").decode()] += 1
        return found
    finally:
        consumer.close()


async def restart_all(cluster: UpgradedCluster, step: int) -> None:
    for node, member in cluster.members.items():
        await member.stop()
        member.settings = cluster.options(node, step)
        await member.start()
        await cluster.until_active()
        await eventually_here(cluster.is_whole, seconds_max=120)
        await cluster.until_agreed()


async def test_a_running_cluster_is_secured_while_clients_use_it(tmp_path: Path) -> None:
    cluster = UpgradedCluster(tmp_path)
    async with cluster:
        plain, tls = (cluster.client_properties(tls=tls) for tls in (False, True))
        await asyncio.to_thread(create, plain)
        traffic = Traffic(plain, 0)
        await restart_all(cluster, 1)
        await restart_all(cluster, 2)
        # Clients move to the new listener before the old one is removed.
        following = Traffic(tls, await traffic.stop())
        await restart_all(cluster, 3)
        await following.stop()
        written = [*traffic.acknowledged, *following.acknowledged]
        assert traffic.acknowledged and following.acknowledged
        found = await asyncio.to_thread(read_all, tls, len(written))
        assert found == Counter(written), "every acknowledged record is there once"
        active = await cluster.until_active()
        for broker in active.quorum.image.brokers.values():
            assert [(each.name, each.security_protocol) for each in broker.end_points] == [("NODES", 1), ("CLIENTS", 1)]
