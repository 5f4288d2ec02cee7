"""Connections that exceed the connection rate quota of their address."""

from typing import Any

import pytest

from penstock.config.settings import BrokerSettings
from penstock.metrics.metrics import Metrics
from penstock.quotas.limits import Spans
from penstock.quotas.throttle import Throttle
from penstock.server.listener import HELD_S_MAX, LOGGED_HOSTS_MAX, Admission, HeldConnection, Server
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


def admission(clock: TickingClock, **settings: str) -> Admission:
    given = BrokerSettings({name.replace("_", "."): value for name, value in settings.items()})
    return Admission(clock, lambda: given, Metrics({}))


@pytest.mark.parametrize(
    ("settings", "hosts", "limit"),
    [
        ({"max_connections": "2"}, ["10.0.0.1", "10.0.0.2", "10.0.0.3"], "max.connections"),
        ({"max_connections_per_ip": "2"}, ["10.0.0.1"] * 3, "max.connections.per.ip"),
        (
            {"max_connections_per_ip": "9", "max_connections_per_ip_overrides": "10.0.0.9:1, 10.0.0.1:2"},
            ["10.0.0.1"] * 3,
            "max.connections.per.ip",
        ),
        ({"max_connection_creation_rate": "2"}, ["10.0.0.1", "10.0.0.2", "10.0.0.3"], "max.connection.creation.rate"),
    ],
)
def test_a_connection_over_a_limit_is_rejected_and_the_limit_is_logged_once(
    settings: dict[str, str], hosts: list[str], limit: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = TickingClock()
    door = admission(clock, **settings)
    assert [door.admit(host) for host in hosts] == [True, True, False]
    assert not door.admit(hosts[-1])
    assert caplog.messages == [f"rejecting connections from {hosts[-1]}: {limit} is reached"]
    assert door.open_count == 2


def test_the_addresses_of_rejected_connections_are_not_kept_forever(caplog: pytest.LogCaptureFixture) -> None:
    settings = BrokerSettings({"max.connections": "0"})
    admission = Admission(TickingClock(), lambda: settings, Metrics({}))
    for host in ("first", "first", *(f"fe80::{number:x}" for number in range(LOGGED_HOSTS_MAX)), "first"):
        assert not admission.admit(host)
    assert caplog.text.count("from first") == 2


def test_a_closed_connection_makes_room_for_the_next() -> None:
    door = admission(TickingClock(), max_connections_per_ip="1")
    assert door.admit("10.0.0.1") and not door.admit("10.0.0.1") and door.admit("10.0.0.2")
    door.leave("10.0.0.1")
    assert door.open_count == 1
    assert door.admit("10.0.0.1")


def test_the_rate_of_connections_is_counted_by_the_second() -> None:
    clock = TickingClock()
    door = admission(clock, max_connection_creation_rate="1")
    assert door.admit("10.0.0.1") and not door.admit("10.0.0.1")
    clock.tick(1.0)
    assert door.admit("10.0.0.1")
