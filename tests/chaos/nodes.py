"""Real nodes as processes, each behind a proxy, with controls for faults."""

import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from penstock.actions.cluster.config_files import NodePlan, plan, write
from tests.chaos.proxy import Proxy, ProxyThread
from tests.support.ports import free_ports

STOP_S_MAX = 60.0


class NodeProcess:
    """One node. Clients and peers reach it through its proxy; it listens on another port."""

    def __init__(self, node: NodePlan, proxy: Proxy, threads: ProxyThread) -> None:
        self.node = node
        self.proxy = proxy
        self._threads = threads
        self.is_paused = False
        self._process: subprocess.Popen[str] | None = None

    @property
    def node_id(self) -> int:
        return self.node.node_id

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> Path:
        return self.node.data.with_suffix(".log")

    def start(self, *, wait: bool = True) -> None:
        assert not self.is_running
        self._threads.run(self.proxy.start())
        command = [sys.executable, "-m", "penstock.cli.main", "start", "--config", str(self.node.config)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        if wait:
            self.wait_ready()

    def wait_ready(self) -> None:
        process = self._process
        assert process is not None and process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("ready "):
            raise RuntimeError(f"node {self.node_id} did not start: {self.log.read_text(errors='replace')[-2000:]}")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._ended()
            self.is_paused = False
            # Without a process, no port is open.
            self._threads.run(self.proxy.stop())

    def stop(self) -> int:
        """Stop with SIGTERM; return the exit code."""
        assert self._process is not None
        self.resume()
        self._process.send_signal(signal.SIGTERM)
        code = self._ended()
        self._threads.run(self.proxy.stop())
        return code

    def _ended(self) -> int:
        assert self._process is not None and self._process.stdout is not None
        code = self._process.wait(STOP_S_MAX)
        self._process.stdout.close()
        return code

    def pause(self) -> None:
        if self._process is not None and self.is_running:
            self._process.send_signal(signal.SIGSTOP)
            self.is_paused = True

    def resume(self) -> None:
        if self._process is not None and self.is_paused:
            self._process.send_signal(signal.SIGCONT)
            self.is_paused = False


class Nodes:
    def __init__(self, folder: Path, *, count: int = 3, settings: Mapping[str, str] | None = None) -> None:
        ports = free_ports(2 * count)
        self.threads = ProxyThread()
        hosts = [f"127.0.0.1:{port}" for port in ports[:count]]
        plans = plan(folder, hosts=hosts, first_port=ports[0], racks=[], one_host=True)
        write(plans, dict(settings or {}))
        self.all = [
            NodeProcess(each, Proxy(each.port, ports[count + position]), self.threads)
            for position, each in enumerate(plans)
        ]
        for position, node in enumerate(self.all):
            # The proxy's address is advertised; the node listens behind it.
            with node.node.config.open("a", encoding="utf-8") as config:
                config.write(f"advertised.listeners=PLAINTEXT://127.0.0.1:{node.node.port}\n")
            text = node.node.config.read_text(encoding="utf-8")
            listeners = f"listeners=PLAINTEXT://127.0.0.1:{node.node.port}\n"
            node.node.config.write_text(
                text.replace(listeners, f"listeners=PLAINTEXT://127.0.0.1:{ports[count + position]}\n", 1),
                encoding="utf-8",
            )

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{node.node.port}" for node in self.all)

    def __enter__(self) -> "Nodes":
        for node in self.all:
            node.start(wait=False)
        for node in self.all:
            node.wait_ready()
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.all:
            node.kill()
        self.threads.stop()

    def heal(self) -> None:
        """Start all nodes and open all links."""
        for node in self.all:
            self.threads.call(node.proxy.release)
            node.resume()
            if not node.is_running:
                node.start(wait=False)
                node.wait_ready()
