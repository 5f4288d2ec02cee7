"""systemd's notification protocol: datagrams to the socket that NOTIFY_SOCKET names.

A service of Type=notify counts as started after READY=1. With WatchdogSec=, systemd restarts it when WATCHDOG=1 does
not come in time. Without the variables nothing is sent. See sd_notify(3) and sd_watchdog_enabled(3).
"""

import logging
import os
import socket
from collections.abc import MutableMapping

_log = logging.getLogger(__name__)


class NotifySocket:
    """Implements ServiceManager. A datagram that cannot be sent is dropped: the node is more important."""

    def __init__(self, address: str | None, *, watchdog_s: float | None = None) -> None:
        self._address = "" if address is None else address
        self._watchdog_s = watchdog_s

    @classmethod
    def from_environment(cls, environment: MutableMapping[str, str], *, pid: int | None = None) -> "NotifySocket":
        """Read and remove systemd's variables, so that child processes do not notify in the name of this one."""
        address = environment.pop("NOTIFY_SOCKET", None)
        micros = environment.pop("WATCHDOG_USEC", "")
        watched = environment.pop("WATCHDOG_PID", "")
        is_meant = not watched or watched == str(os.getpid() if pid is None else pid)
        is_set = micros.isdigit() and int(micros) > 0 and is_meant
        return cls(address, watchdog_s=int(micros) / 1e6 if is_set else None)

    @property
    def watchdog_s(self) -> float | None:
        return self._watchdog_s if self._address else None

    def starting(self, status: str) -> None:
        self._send(f"STATUS={status}")

    def ready(self, status: str) -> None:
        self._send(f"READY=1\nSTATUS={status}")

    def alive(self) -> None:
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        self._send("STOPPING=1\nSTATUS=stopping")

    def _send(self, message: str) -> None:
        # A path, or a name in the abstract namespace.
        if not self._address.startswith(("/", "@")):
            return
        target = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(
                socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
            ) as sender:
                sender.sendto(message.encode(), target)
        except OSError as error:
            _log.debug("cannot notify the service manager at %s: %s", self._address, error)
