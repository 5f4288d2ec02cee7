"""Connections that exceed the connection rate quota of their address."""

from typing import Any

from penstock.config.settings import BrokerSettings
from penstock.metrics.metrics import Metrics
from penstock.quotas.limits import Spans
from penstock.quotas.throttle import Throttle
from penstock.server.listener import HELD_S_MAX, Admission, HeldConnection, Server
from penstock.server.session import ClientSession
from tests.unit.ports.ticking import TickingClock


class Peer:
    peer_port = local_port = 1

    def __init__(self, host: str) -> None:
        self.peer_host = host
        self.is_paused = self.is_closed = False

    def pause_frames(self) -> None:
        self.is_paused = True

    def close(self) -> None:
        self.is_closed = True


class Listening:
    port = 1
    accept: Any = None

    def listen(self, host: str, port: int) -> "Listening":
        return self

    def serve(self, accept: Any) -> None:
        self.accept = accept


class NoDispatcher:
    def dispatch(self, *frame: Any) -> Any:
        raise AssertionError("a held connection is not read")


def test_connections_over_the_quota_of_their_address_are_held_then_closed() -> None:
    clock, listening, dispatcher = TickingClock(), Listening(), NoDispatcher()
    throttle = Throttle(clock, Spans)
    network: Any = listening
    server = Server(network, Admission(clock, BrokerSettings, Metrics({})), throttle, clock)
    server.bind("PLAINTEXT", "", 0)
    server.serve(dispatcher)  # type: ignore[arg-type]
    throttle.quotas_changed({(("ip", "10.0.0.1"),): {"connection_creation_rate": 2.0}})
    kinds = []
    for _ in range(4):
        session = listening.accept(last := Peer("10.0.0.1"))
        kinds.append(type(session))
    assert kinds == [ClientSession, ClientSession, ClientSession, HeldConnection]
    assert isinstance(listening.accept(Peer("10.0.0.2")), ClientSession)
    assert (last.is_paused, last.is_closed) == (True, False)
    clock.tick(HELD_S_MAX)
    assert last.is_closed
    session.lost(None)
    assert isinstance(listening.accept(Peer("10.0.0.1")), ClientSession)
