"""The supervisor of the nodes of one machine: runs them as child processes until a signal ends it.

`penstock cluster start` and `penstock start --cores` use it. Prints one `ready` line with all addresses when every node
is ready. A node that exits is reported and, if wanted, started again with exponential backoff. `penstock cluster
restart` asks it to restart a node (restart.py).
"""

import signal
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from penstock.actions.cluster.config_files import NodePlan
from penstock.cli.cluster.local import running_cluster
from penstock.cli.cluster.restart import answer_request, read_request
from penstock.cli.errors import CommandError
from penstock.cli.lifetime import on_stop_signal
from penstock.ports.service_manager import ServiceManager

READY_S_MAX = 60.0
STOP_S_MAX = 45.0
POLL_S = 0.1
BACKOFF_S_MIN, BACKOFF_S_MAX = 0.5, 10.0
STABLE_S = 30.0
"""The backoff of a node that has run this long starts over."""


class Process(Protocol):
    """The part of subprocess.Popen that the supervisor uses."""

    def poll(self) -> int | None: ...

    def send_signal(self, number: int) -> None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def kill(self) -> None: ...


class Child(ABC):
    """A process that is started again under the same name."""

    def __init__(self, name: str, node_id: int | None, log: str) -> None:
        self.name = name
        self.node_id = node_id
        self.log = log
        """Where its log is."""
        self._process: Process | None = None
        self.started_at = 0.0
        self.backoff_s = BACKOFF_S_MIN
        self.restart_at: float | None = None

    @abstractmethod
    def launch(self) -> Process:
        """Start a process."""

    @property
    @abstractmethod
    def is_ready(self) -> bool:
        """Whether the present process is ready."""

    @abstractmethod
    def last_words(self) -> str:
        """Return why the process exited, as far as that is known."""

    def start(self) -> None:
        self.restart_at = None
        self.started_at = time.monotonic()
        self._process = self.launch()

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def terminate(self) -> None:
        if self._process is not None and self.is_running:
            self._process.send_signal(signal.SIGTERM)

    def wait(self, until: float) -> None:
        if self._process is not None:
            try:
                self._process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


class NodeChild(Child):
    """A node of a local cluster: a new program with its own log file."""

    def __init__(self, node: NodePlan, options: Sequence[str]) -> None:
        self._log_file = node.data.with_suffix(".log")
        super().__init__(f"node {node.node_id}", node.node_id, str(self._log_file))
        command = [sys.executable, "-m", "penstock.cli.main", "start", "--config", str(node.config)]
        self._command = [*command, "--data", str(node.data), "--stop-at-eof", *options]
        self._ready = threading.Event()

    def launch(self) -> Process:
        self._ready.clear()
        self._log_file.parent.mkdir(parents=True, exist_ok=True)
        with self._log_file.open("ab") as log:
            # In its own session, so that Ctrl-C reaches only the parent, which then stops the nodes. A node also stops
            # when the pipe to its standard input closes, as it does if the parent is killed.
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        threading.Thread(target=self._listen, args=(process,), daemon=True).start()
        return process

    def _listen(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None, "standard output is a pipe"
        for line in process.stdout:
            if line.startswith("ready "):
                self._ready.set()

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set()

    def last_words(self) -> str:
        file = self._log_file
        lines = file.read_text(errors="replace").splitlines() if file.exists() else []
        return lines[-1] if lines else "its log is empty"


def run(folder: Path, nodes: Sequence[NodePlan], *, restart: bool, options: Sequence[str] = ()) -> None:
    """Run the nodes of the cluster in a folder until a signal or `penstock cluster stop`."""
    children = [NodeChild(node, options) for node in nodes]
    with running_cluster(folder):
        supervise(
            folder,
            children,
            ready=[f"ready {','.join(node.address for node in nodes)}"],
            restart=restart,
            ready_s_max=READY_S_MAX,
        )


def supervise(
    folder: Path,
    children: Sequence[Child],
    *,
    ready: Sequence[str],
    restart: bool,
    ready_s_max: float | None,
    manager: ServiceManager | None = None,
    has_ended: Callable[[], bool] = lambda: False,
) -> None:
    """Run processes until a signal, or until `has_ended`. Prints the lines `ready` when all are ready.

    `folder` is where requests to restart one of them arrive.
    """
    stopping = threading.Event()
    on_stop_signal(stopping.set)
    # A request of a command that was killed.
    answer_request(folder, problem=None)
    try:
        for child in children:
            child.start()
        _wait_ready(children, stopping, ready_s_max, manager)
        if not stopping.is_set():
            print("\n".join(ready), flush=True)
            if manager is not None:
                manager.ready(ready[0].replace("ready", "listening on", 1))
        while not stopping.wait(POLL_S) and not has_ended():
            if manager is not None and manager.watchdog_s is not None:
                manager.alive()
            _restart_on_request(folder, children, stopping)
            _restart_exited(children, restart=restart)
            if not any(child.is_running or child.restart_at is not None for child in children):
                raise CommandError(f"All nodes have exited. {children[-1].last_words()}")
    finally:
        if manager is not None:
            manager.stopping()
        _stop(children)


def _wait_ready(
    children: Sequence[Child],
    stopping: threading.Event,
    ready_s_max: float | None,
    manager: ServiceManager | None = None,
) -> None:
    deadline = None if ready_s_max is None else time.monotonic() + ready_s_max
    while not stopping.is_set() and not all(child.is_ready for child in children):
        for child in children:
            if child.exit_code is not None:
                raise CommandError(f"{child.name.capitalize()} did not start: {child.last_words()}")
        if deadline is not None and time.monotonic() > deadline:
            late = [child for child in children if not child.is_ready]
            raise CommandError(
                f"{', '.join(child.name for child in late).capitalize()} was not ready within {ready_s_max:.0f} s. "
                f"See the log: {late[0].log}."
            )
        if manager is not None and manager.watchdog_s is not None:
            manager.alive()
        time.sleep(POLL_S / 2)


def _restart_on_request(folder: Path, children: Sequence[Child], stopping: threading.Event) -> None:
    """Restart the node that `penstock cluster restart` asks for."""
    wanted = read_request(folder)
    if wanted is None:
        return
    child = next((child for child in children if child.node_id == wanted), None)
    if child is None:
        answer_request(folder, problem=f"the cluster has no node {wanted}.")
        return
    child.terminate()
    child.wait(time.monotonic() + STOP_S_MAX)
    child.start()
    try:
        _wait_ready([child], stopping, READY_S_MAX)
    except CommandError as error:
        answer_request(folder, problem=str(error))
    else:
        answer_request(folder, problem=None)


def _restart_exited(children: Sequence[Child], *, restart: bool) -> None:
    now = time.monotonic()
    for child in children:
        if child.exit_code is None:
            continue
        if child.restart_at is None:
            if child.started_at == 0.0:
                continue
            _report(child)
            if now - child.started_at > STABLE_S:
                child.backoff_s = BACKOFF_S_MIN
            child.restart_at = now + child.backoff_s if restart else None
            child.backoff_s = min(2 * child.backoff_s, BACKOFF_S_MAX)
            child.started_at = 0.0
        elif now >= child.restart_at:
            child.start()
            print(f"{child.name} restarted", file=sys.stderr, flush=True)


def _report(child: Child) -> None:
    code = child.exit_code
    how = f"was killed by signal {-code}" if code is not None and code < 0 else f"exited with code {code}"
    print(f"{child.name} {how}; its log is {child.log}", file=sys.stderr, flush=True)


def _stop(children: Sequence[Child]) -> None:
    for child in children:
        child.terminate()
    until = time.monotonic() + STOP_S_MAX
    for child in children:
        child.wait(until)
