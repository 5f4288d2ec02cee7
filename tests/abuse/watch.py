"""What the operating system and the node itself say about the node while it is attacked."""

from __future__ import annotations

import http.client
import os
import re
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.proc import memory_mb
from tests.abuse.attack import Target

SAMPLE_S = 0.1
HEALTH_S = 0.25
HEALTH_S_MAX = 10.0
# The watchdog of the event loop: the longest time that one callback held it since the node started.
LOOP_HELD = re.compile(r"^(penstock_\w*loop\w*(?:held|hold|stall|longest|max)\w*)(?:\{[^}]*\})? (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Usage:
    at: float
    memory_mb: float
    sockets: int
    files: int

    @property
    def descriptors(self) -> int:
        return self.sockets + self.files


def usage(pid: int) -> Usage:
    sockets = files = 0
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):
        try:
            is_socket = os.readlink(f"{folder}/{name}").startswith("socket:")
        except OSError:
            # It was closed meanwhile.
            continue
        sockets += is_socket
        files += not is_socket
    return Usage(time.monotonic(), memory_mb(pid), sockets, files)


@dataclass(frozen=True, slots=True)
class Health:
    """One answer of /health."""

    at: float
    took_ms: float
    error: str


class Watch:
    """Samples the process and asks for its health until `stop`, in two threads."""

    def __init__(self, pid: int, target: Target) -> None:
        self.usages: list[Usage] = []
        self.healths: list[Health] = []
        self._pid = pid
        self._target = target
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._sample, daemon=True)]
        if target.http_port:
            self._threads.append(threading.Thread(target=self._ask_health, daemon=True))
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(HEALTH_S_MAX + 5)

    def _sample(self) -> None:
        while not self._stopped.is_set():
            try:
                found = usage(self._pid)
            except OSError:
                # The node is gone: the campaign says so.
                return
            self.usages.append(found)
            # With thousands of descriptors a sample is not free.
            self._stopped.wait(max(SAMPLE_S, 20 * (time.monotonic() - found.at)))

    def _ask_health(self) -> None:
        while not self._stopped.wait(HEALTH_S):
            began = time.monotonic()
            error = ""
            try:
                status, _ = get(self._target, "/health")
                if status != 200:
                    error = f"HTTP {status}"
            except OSError as failure:
                error = type(failure).__name__
            self.healths.append(Health(began, (time.monotonic() - began) * 1000, error))


def get(target: Target, path: str) -> tuple[int, str]:
    """Ask the node's HTTP port. Raises OSError."""
    connection = http.client.HTTPConnection(target.host, target.http_port, timeout=HEALTH_S_MAX)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except http.client.HTTPException as error:
        raise ConnectionError(str(error)) from error
    finally:
        connection.close()


def loop_held_ms(target: Target) -> float | None:
    """The longest time that the event loop was held since the start; None where the node does not measure it."""
    if not target.http_port:
        return None
    try:
        _, text = get(target, "/metrics")
    except OSError:
        return None
    found = [float(value) for name, value in LOOP_HELD.findall(text) if not name.endswith("_count")]
    return max(found) if found else None


def faults(log: str) -> list[str]:
    """Lines of a log that no request may cause."""
    return [line for line in log.splitlines() if "Traceback" in line or " ERROR " in line or " CRITICAL " in line]


def log_of(folder: Path) -> str:
    return folder.read_text(errors="replace")
