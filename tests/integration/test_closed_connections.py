"""Tests that reference counts free closed connections: old objects are rarely scanned for cycles."""

import gc

from penstock.ports.real.connection import SocketConnection
from penstock.server.session import ClientSession
from penstock.testing import Broker
from tests.abuse import wire
from tests.abuse.attack import Target
from tests.support.eventually import eventually

CLIENTS = 10
TOPIC = "orders"


def test_no_object_of_a_closed_connection_waits_for_the_garbage_collector() -> None:
    rows = [{"partition": 0, "fetch_offset": 0, "max_bytes": 1_000}]
    waits = wire.request_frame(
        "fetch",
        wire.FETCH_VERSION,
        {"replica_id": -1, "max_wait": 60_000, "min_bytes": 1, "max_bytes": 1_000, "session_epoch": 0, "rack_id": "",
         "topics": [{"topic": TOPIC, "partitions": rows}]},
    )  # fmt: skip
    with Broker() as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        target = Target(host, int(port), "")
        gc.collect()
        before = _count()
        wire.create_topics(target, [TOPIC])
        eventually(lambda: _count() <= before)
        gc.disable()
        try:
            clients = [wire.Client(target) for _ in range(CLIENTS)]
            for client in clients:
                client.exchange(wire.API_VERSIONS)
                client.socket.sendall(waits)
            eventually(lambda: _count() >= before + 2 * CLIENTS)
            for client in clients:
                client.close()
            eventually(lambda: _count() <= before)
        finally:
            gc.enable()


def _count() -> int:
    return sum(isinstance(each, ClientSession | SocketConnection) for each in gc.get_objects())
