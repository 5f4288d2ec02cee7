"""Several Penstock nodes as processes, each a voter and a broker."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from penstock.testing.defaults import DEFAULTS
from tests.support.ports import HOST, free_ports

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
START_S_MAX = 120.0
LOG_TAIL_SIZE = 3000
ROOT = Path(__file__).parents[2]


class PenstockCluster:
    """Nodes 1 to `count`, which serve from `start()` until `stop()`. `racks` has one for each node, in order."""

    name = "Penstock"

    def __init__(
        self,
        *,
        count: int = 3,
        properties: Mapping[str, str] | None = None,
        racks: Sequence[str] = (),
        module: str = "penstock.cli.main",
        has_metrics: bool = False,
    ) -> None:
        """`module` is run for each node. With `has_metrics`, each serves metrics at `metrics_address`."""
        self._module = module
        self._metrics_ports = dict(zip(range(1, count + 1), free_ports(count), strict=True)) if has_metrics else {}
        self.folder = Path(tempfile.mkdtemp(prefix="penstock-cluster-"))
        self.ids = tuple(range(1, count + 1))
        self._ports = dict(zip(self.ids, free_ports(count), strict=True))
        self._properties = {**DEFAULTS, "broker.session.timeout.ms": "9000", **(properties or {})}
        self._racks = dict(zip(self.ids, racks, strict=False))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._log_begins: dict[int, int] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self._ports.values())

    def address(self, node_id: int) -> str:
        return f"{HOST}:{self._ports[node_id]}"

    def metrics_address(self, node_id: int) -> str:
        return f"{HOST}:{self._metrics_ports[node_id]}"

    def data(self, node_id: int) -> Path:
        return self.folder / f"node{node_id}"

    def log(self, node_id: int) -> str:
        """Return the output of the node so far."""
        return (self.folder / f"node{node_id}.log").read_text(errors="replace")

    def logs(self) -> dict[str, str]:
        """Return the last output of each node, for the report of a failed test."""
        paths = sorted(self.folder.glob("node*.log"))
        return {path.name: path.read_text(errors="replace")[-LOG_TAIL_SIZE:] for path in paths}

    @property
    def pids(self) -> dict[int, int]:
        return {node_id: process.pid for node_id, process in self._processes.items()}

    def start(self) -> None:
        for node_id in self.ids:
            self.begin(node_id)
        for node_id in self.ids:
            self.await_node(node_id)

    def begin(self, node_id: int) -> None:
        """Start a node without waiting for it: nodes serve only when a majority is up."""
        voters = ",".join(f"{each}@{HOST}:{port}" for each, port in self._ports.items())
        settings = {
            "node.id": str(node_id),
            "cluster.id": CLUSTER_ID,
            "controller.quorum.voters": voters,
            **({"broker.rack": self._racks[node_id]} if node_id in self._racks else {}),
            **self._properties,
        }
        if self._metrics_ports:
            settings["metrics.listener"] = f"http://{self.metrics_address(node_id)}"
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        with (self.folder / f"node{node_id}.log").open("ab") as log:
            self._log_begins[node_id] = len(self.log(node_id))
            self._processes[node_id] = subprocess.Popen(
                [sys.executable, "-m", self._module, "start", "--data", str(self.data(node_id)),
                 "--host", HOST, "--port", str(self._ports[node_id]), "--log-level", "info", *words],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT,
            )  # fmt: skip

    def await_node(self, node_id: int) -> None:
        """Wait until a node reports that it serves."""
        deadline = time.monotonic() + START_S_MAX
        while not self.is_ready(node_id):
            if self._processes[node_id].poll() is not None or time.monotonic() > deadline:
                self.kill_all()
                raise TimeoutError(f"node {node_id} does not serve: {self.log(node_id)[-2000:]}")
            time.sleep(0.05)

    def is_ready(self, node_id: int) -> bool:
        """Return whether the node has reported that since its start: the quorum is served before clients are."""
        return f"ready {self.address(node_id)}" in self.log(node_id)[self._log_begins[node_id] :]

    def restart(self, node_id: int) -> None:
        self.begin(node_id)
        self.await_node(node_id)

    def stop(self, node_id: int) -> None:
        """Shut a node down cleanly."""
        process = self._processes.pop(node_id)
        process.terminate()
        process.wait(timeout=60)

    def kill(self, node_id: int) -> None:
        """Kill a node, as kill -9 does."""
        process = self._processes.pop(node_id)
        process.kill()
        process.wait()

    def pause(self, node_id: int) -> None:
        self._processes[node_id].send_signal(signal.SIGSTOP)

    def resume(self, node_id: int) -> None:
        self._processes[node_id].send_signal(signal.SIGCONT)

    def kill_all(self) -> None:
        for node_id in list(self._processes):
            self._processes[node_id].send_signal(signal.SIGCONT)
            self.kill(node_id)

    def __enter__(self) -> PenstockCluster:
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
        if error is not None:
            for name, text in self.logs().items():
                error.add_note(f"{name}: {text}")
        shutil.rmtree(self.folder, ignore_errors=True)
