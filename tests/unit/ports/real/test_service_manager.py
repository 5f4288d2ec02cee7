import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.ports.real.service_manager import NotifySocket


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, str]]:
    """Return a socket that listens as systemd does, and its NOTIFY_SOCKET."""
    # The path of a socket is limited to 107 bytes, and that of tmp_path may be longer.
    with (
        tempfile.TemporaryDirectory(prefix="notify-") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver,
    ):
        name = f"{folder}/s" if request.param == "path" else f"@{Path(folder).name}"
        receiver.bind("\0" + name[1:] if name.startswith("@") else name)
        receiver.setblocking(False)
        yield receiver, name


def test_each_state_is_one_datagram(manager: tuple[socket.socket, str]) -> None:
    receiver, name = manager
    notify = NotifySocket.from_environment({"NOTIFY_SOCKET": name})
    notify.starting("recovering")
    notify.ready("listening")
    notify.alive()
    notify.stopping()
    assert [receiver.recv(1000) for _ in range(4)] == [
        b"STATUS=recovering",
        b"READY=1\nSTATUS=listening",
        b"WATCHDOG=1",
        b"STOPPING=1\nSTATUS=stopping",
    ]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "often"}, None),
        ({}, None),
    ],
)
def test_the_watchdog_is_that_of_this_process(environment: dict[str, str], expected: float | None) -> None:
    given = {"NOTIFY_SOCKET": "/run/s", "PATH": "/bin", **environment}
    assert NotifySocket.from_environment(given, pid=7).watchdog_s == expected
    # Child processes do not notify in the name of this one.
    assert given == {"PATH": "/bin"}


def test_without_a_manager_nothing_is_sent() -> None:
    notify = NotifySocket.from_environment({"WATCHDOG_USEC": "1000000"}, pid=os.getpid())
    assert notify.watchdog_s is None
    notify.ready("listening")


@pytest.mark.parametrize("address", ["/nowhere/at/all", "vsock:2:1", "relative"])
def test_a_manager_that_cannot_be_reached_is_ignored(address: str) -> None:
    NotifySocket(address).ready("listening")
