"""Apache Kafka as a peer, whose responses and figures are compared with Penstock's.

A combined broker and controller on free loopback ports, with its data in a temporary directory. `quick=True` trades
peak speed for a fast start (tests); benchmarks use the usual server flags.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from penstock.testing.defaults import DEFAULTS
from tests.support.java_tools import java, java_environment, kafka_jars
from tests.support.ports import HOST, free_ports, wait_until_answered

CLUSTER_ID = "b3BlbnN0b2NrLXBlZXItMQ"
START_S_MAX = 300.0
LOG_TAIL_SIZE = 2000
SERVER_FLAGS = ["-Xmx1G", "-Xms1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"]
QUICK_FLAGS = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]


class ApacheKafka:
    """A real Kafka process that serves from `start()` until `stop()`."""

    name = "Apache Kafka"

    def __init__(
        self,
        *,
        quick: bool = True,
        properties: Mapping[str, str] | None = None,
        listeners: Sequence[str] | Mapping[str, str] = (),
        data: Path | None = None,
    ) -> None:
        """`listeners` are security protocols, or names with their security protocols. See `address`.

        `data` is a directory that another program has formatted.
        """
        self._folder = Path(tempfile.mkdtemp(prefix="apache-kafka-"))
        self._data = data or self._folder / "data"
        self._flags = QUICK_FLAGS if quick else SERVER_FLAGS
        self._port, controller_port = free_ports(2)
        self._classpath = f"{kafka_jars()}/*"
        self._process: subprocess.Popen[bytes] | None = None
        self._more = dict(zip(listeners, free_ports(len(listeners)), strict=True))
        self._protocols = dict(listeners) if isinstance(listeners, Mapping) else {name: name for name in listeners}
        settings = self._settings(controller_port) | dict(properties or {})
        self._properties = self._folder / "server.properties"
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        if data is None:
            self._format()

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self._port}"

    def address(self, listener: str) -> str:
        """Return the address of a listener."""
        return self.bootstrap if listener == "PLAINTEXT" else f"{HOST}:{self._more[listener]}"

    @property
    def data(self) -> Path:
        return self._data

    @property
    def pid(self) -> int:
        assert self._process is not None, "the peer is not running"
        return self._process.pid

    def start(self) -> float:
        """Start the process; return the seconds until its first response."""
        started = time.monotonic()
        self._launch()
        try:
            wait_until_answered(self._port, seconds_max=START_S_MAX)
        except TimeoutError as error:
            self.kill()
            log = (self._folder / "server.log").read_text(errors="replace")
            raise TimeoutError(f"{error}: {log[-LOG_TAIL_SIZE:]}") from None
        return time.monotonic() - started

    def start_refused(self) -> int:
        """Start a process that must exit on its own; return its exit code. Its log is discarded."""
        process = self._launch()
        try:
            return process.wait(timeout=START_S_MAX)
        finally:
            self.kill()

    def _launch(self) -> subprocess.Popen[bytes]:
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [java(), *self._flags, "-cp", self._classpath, "kafka.Kafka", str(self._properties)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=java_environment(),
            )  # fmt: skip
        return self._process

    def stop(self) -> None:
        """Shut down cleanly."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def kill(self) -> None:
        """Kill the process, as kill -9 does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> ApacheKafka:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()

    def discard(self) -> None:
        # The data is discarded, so a clean shutdown would save nothing.
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _settings(self, controller_port: int) -> dict[str, str]:
        open_to_clients = [f"{name}://{HOST}:{port}" for name, port in {"PLAINTEXT": self._port, **self._more}.items()]
        protocols = {"PLAINTEXT": "PLAINTEXT", **self._protocols, "CONTROLLER": "PLAINTEXT"}
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": ",".join([*open_to_clients, f"CONTROLLER://{HOST}:{controller_port}"]),
            "advertised.listeners": ",".join(open_to_clients),
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"{HOST}:{controller_port}",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            # Kafka's first retention check otherwise runs 30 s after startup, whatever the interval is.
            "log.initial.task.delay.ms": DEFAULTS["log.retention.check.interval.ms"],
            **DEFAULTS,
        }

    def _format(self) -> None:
        subprocess.run(
            [java(), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", self._classpath,
             "kafka.tools.StorageTool", "format", "--standalone", "-t", CLUSTER_ID, "-c", str(self._properties)],
            check=True, capture_output=True, timeout=120, env=java_environment(),
        )  # fmt: skip
