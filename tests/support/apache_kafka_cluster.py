"""Three Apache Kafka nodes as a peer, each a broker and a controller, otherwise with Kafka's defaults."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

from tests.support.apache_kafka import CLUSTER_ID, SERVER_FLAGS
from tests.support.java_tools import java, java_environment, kafka_jars
from tests.support.ports import HOST, free_ports, wait_until_answered


class ApacheKafkaCluster:
    """Nodes 1 to `count`, which serve from `start()` until `kill_all()`."""

    name = "Apache Kafka"

    def __init__(self, *, count: int = 3) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="apache-kafka-cluster-"))
        self.ids = tuple(range(1, count + 1))
        ports = free_ports(2 * count)
        self._ports = dict(zip(self.ids, ports[:count], strict=True))
        self._controllers = dict(zip(self.ids, ports[count:], strict=True))
        self._classpath = f"{kafka_jars()}/*"
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self._ports.values())

    def address(self, node_id: int) -> str:
        return f"{HOST}:{self._ports[node_id]}"

    @property
    def pids(self) -> dict[int, int]:
        return {node_id: process.pid for node_id, process in self._processes.items()}

    def start(self) -> None:
        for node_id in self.ids:
            self._format(node_id)
        for node_id in self.ids:
            self._begin(node_id)
        for port in self._ports.values():
            wait_until_answered(port, seconds_max=120)

    def _begin(self, node_id: int) -> None:
        with (self.folder / f"node{node_id}.log").open("ab") as log:
            self._processes[node_id] = subprocess.Popen(
                [java(), *SERVER_FLAGS, "-cp", self._classpath, "kafka.Kafka", str(self._settings_of(node_id))],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=java_environment(),
            )  # fmt: skip

    def restart(self, node_id: int) -> None:
        self._begin(node_id)
        wait_until_answered(self._ports[node_id], seconds_max=120)

    def stop(self, node_id: int) -> None:
        """Shut a node down cleanly."""
        process = self._processes.pop(node_id)
        process.terminate()
        process.wait(timeout=60)

    def kill(self, node_id: int) -> None:
        process = self._processes.pop(node_id)
        process.kill()
        process.wait()

    def kill_all(self) -> None:
        for node_id in list(self._processes):
            self.kill(node_id)

    def __enter__(self) -> ApacheKafkaCluster:
        try:
            self.start()
        except BaseException:
            self.kill_all()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill_all()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _settings_of(self, node_id: int) -> Path:
        return self.folder / f"node{node_id}.properties"

    def _format(self, node_id: int) -> None:
        voters = ",".join(f"{each}@{HOST}:{port}" for each, port in self._controllers.items())
        plain, controller = self._ports[node_id], self._controllers[node_id]
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://{HOST}:{plain},CONTROLLER://{HOST}:{controller}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{plain}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "log.dirs": str(self.folder / f"node{node_id}"),
            "group.initial.rebalance.delay.ms": "0",
        }
        self._settings_of(node_id).write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        subprocess.run(
            [java(), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", self._classpath,
             "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._settings_of(node_id))],
            check=True, capture_output=True, timeout=120, env=java_environment(),
        )  # fmt: skip
