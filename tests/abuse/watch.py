"""Observations of the attacked node, from the operating system and from the node itself."""

from __future__ import annotations

import http.client
import os
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.proc import memory_mb
from tests.abuse.attack import Target

SAMPLE_S = 0.1
HEALTH_S = 0.25
HEALTH_S_MAX = 10.0
# The longest time that a request of an API has blocked the event loop, and that of a whole iteration.
REQUEST_HELD = re.compile(r'^penstock_request_held_max_ms\{request="(\w+)"[^}]*\} (\S+)$', re.MULTILINE)
REQUEST_CPU = re.compile(r'^penstock_request_held_cpu_max_ms\{request="(\w+)"[^}]*\} (\S+)$', re.MULTILINE)
JOB_HELD = re.compile(r"^penstock_job_held_max_ms (\S+)$", re.MULTILINE)
JOB_CPU = re.compile(r"^penstock_job_held_cpu_max_ms (\S+)$", re.MULTILINE)
JOB = "a step of a job"
TURN_HELD = re.compile(r"^penstock_event_loop_held_max_ms (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Usage:
    at: float
    memory_mb: float
    sockets: int
    files: int
    ran_ms: float
    waited_ms: float
    """How long its main thread has run, and has waited for a CPU, since its start."""

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
    ran_ns, waited_ns, _ = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()
    return Usage(time.monotonic(), memory_mb(pid), sockets, files, int(ran_ns) / 1e6, int(waited_ns) / 1e6)


@dataclass(frozen=True, slots=True)
class Health:
    """One response of /health."""

    at: float
    took_ms: float
    error: str


class Watch:
    """A sampler of the process and its health, in two threads, until `stop`."""

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
                # The node is gone; the campaign reports it.
                return
            self.usages.append(found)
            # With thousands of descriptors a sample is expensive.
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
    """Send a request to the node's HTTP port. Raises OSError."""
    connection = http.client.HTTPConnection(target.host, target.http_port, timeout=HEALTH_S_MAX)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except http.client.HTTPException as error:
        raise ConnectionError(str(error)) from error
    finally:
        connection.close()


@dataclass(frozen=True, slots=True)
class LoopHeld:
    """The longest times that the event loop was blocked since the start, as measured by the node."""

    turn_ms: float
    by_api_ms: Mapping[str, float]
    cpu_by_api_ms: Mapping[str, float]
    """By API, and for `JOB`."""

    @property
    def request_ms(self) -> float:
        return max(self.by_api_ms.values(), default=0.0)

    @property
    def request_cpu_ms(self) -> float:
        return max(self.cpu_by_api_ms.values(), default=0.0)

    def since(self, earlier: LoopHeld) -> LoopHeld:
        """Return the values that are new maxima; the others may be older."""
        return LoopHeld(
            self.turn_ms if self.turn_ms > earlier.turn_ms else 0.0,
            _grown(self.by_api_ms, earlier.by_api_ms),
            _grown(self.cpu_by_api_ms, earlier.cpu_by_api_ms),
        )


def _grown(later: Mapping[str, float], earlier: Mapping[str, float]) -> dict[str, float]:
    return {name: held for name, held in later.items() if held > earlier.get(name, 0.0)}


def loop_held(target: Target) -> LoopHeld | None:
    """Return the measurements, or None if the node does not provide them."""
    if not target.http_port:
        return None
    try:
        _, text = get(target, "/metrics")
    except OSError:
        return None
    turn, job, job_cpu = (pattern.search(text) for pattern in (TURN_HELD, JOB_HELD, JOB_CPU))
    if turn is None or job is None or job_cpu is None:
        return None
    by_api = {name: float(value) for name, value in REQUEST_HELD.findall(text)} | {JOB: float(job[1])}
    cpu_by_api = {name: float(value) for name, value in REQUEST_CPU.findall(text)} | {JOB: float(job_cpu[1])}
    return LoopHeld(float(turn[1]), by_api, cpu_by_api)


def slowdown(usages: Sequence[Usage]) -> float:
    """Return the factor by which the node's work took longer because other processes had the CPU."""
    ran = usages[-1].ran_ms - usages[0].ran_ms
    waited = usages[-1].waited_ms - usages[0].waited_ms
    return (ran + waited) / ran if ran > 0 else 1.0


def waited_ms_max(usages: Sequence[Usage]) -> float:
    """Return the longest time without a CPU between two samples: the delay that the machine may have added."""
    return max((later.waited_ms - earlier.waited_ms for earlier, later in pairwise(usages)), default=0.0)


def faults(log: str) -> list[str]:
    """Return errors in a log that no request may cause: their lines, and the end of each traceback."""
    found: list[str] = []
    place = ""
    for line in log.splitlines():
        if " ERROR " in line or " CRITICAL " in line:
            found.append(line)
        elif line.startswith("Traceback "):
            place = "?"
        elif place and line.startswith("  File "):
            place = line.strip()
        elif place and not line.startswith(" "):
            found.append(f"{line} at {place}")
            place = ""
    return found
