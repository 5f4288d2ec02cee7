"""Tests of ports that stay reserved for a broker that restarts."""

import socket
import subprocess
import sys

import pytest

from penstock.testing import ports
from penstock.testing.ports import ReservedPort
from tests.support.ports import HOST, free_ports

RESERVE = "from penstock.testing.ports import ReservedPort; print(ReservedPort('127.0.0.1').number)"


def test_a_port_is_free_and_outside_the_ephemeral_range() -> None:
    (port,) = free_ports(1)
    with socket.create_server((HOST, port)):
        pass
    if not ports._RANGE_FILE.exists():
        pytest.skip(f"{ports._RANGE_FILE} is missing: the ephemeral range is unknown")
    low, high = map(int, ports._RANGE_FILE.read_text().split())
    assert not low <= port <= high


def test_another_process_does_not_get_a_reserved_port(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = ReservedPort(HOST)
    only_mine = "import penstock.testing.ports as p; p._outside_ephemeral_range = lambda: range({0}, {0} + 1); "
    command = [sys.executable, "-c", only_mine.format(mine.number) + RESERVE]
    assert subprocess.check_output(command, text=True) != f"{mine.number}\n"
    mine.release()
    assert subprocess.check_output(command, text=True) == f"{mine.number}\n"


def test_a_port_in_use_is_not_given_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HOST, 0)) as busy:
        port = busy.getsockname()[1]
        monkeypatch.setattr(ports, "_outside_ephemeral_range", lambda: range(port, port + 1))
        assert ReservedPort(HOST).number != port


def test_the_operating_system_picks_a_port_if_the_range_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_outside_ephemeral_range", lambda: range(0))
    mine = ReservedPort(HOST)
    with socket.create_server((HOST, mine.number)) as server:
        assert server.getsockname()[1] == mine.number
