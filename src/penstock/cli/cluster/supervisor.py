"""The supervisor of a local cluster: runs its nodes as child processes until a signal ends it.

Prints one `ready` line with all addresses when every node is ready. The log of a node goes to a file next to its data.
A node that exits is reported and, with --restart, started again with exponential backoff. `penstock cluster restart`
asks it to restart a node (restart.py).
"""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from penstock.actions.cluster.config_files import NodePlan
from penstock.cli.cluster.local import running_cluster
from penstock.cli.cluster.restart import answer_request, read_request
from penstock.cli.errors import CommandError
from penstock.cli.lifetime import on_stop_signal

READY_S_MAX = 60.0
STOP_S_MAX = 45.0
POLL_S = 0.1
BACKOFF_S_MIN, BACKOFF_S_MAX = 0.5, 10.0
STABLE_S = 30.0
"""The backoff of a node that has run this long starts over."""


class Child:
    """The process of one node."""

    def __init__(self, node: NodePlan, options: Sequence[str]) -> None:
        self.node = node
        self.log = node.data.with_suffix(".log")
        command = [sys.executable, "-m", "penstock.cli.main", "start", "--config", str(node.config)]
        self._command = [*command, "--data", str(node.data), "--stop-at-eof", *options]
        self.ready = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self.started_at = 0.0
        self.backoff_s = BACKOFF_S_MIN
        self.restart_at: float | None = None

    def start(self) -> None:
        self.ready.clear()
        self.restart_at = None
        self.started_at = time.monotonic()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            # In its own session, so that Ctrl-C reaches only the parent, which then stops the nodes. A node also stops
            # when the pipe to its standard input closes, as it does if the parent is killed.
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()

    def _listen(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None, "standard output is a pipe"
        for line in process.stdout:
            if line.startswith("ready "):
                self.ready.set()

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

    def last_log_line(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return lines[-1] if lines else "its log is empty"


def run(folder: Path, nodes: Sequence[NodePlan], *, restart: bool, options: Sequence[str] = ()) -> None:
    """Run the nodes of the cluster in a folder until a signal or `penstock cluster stop`."""
    with running_cluster(folder):
        _run(folder, nodes, restart=restart, options=options)


def _run(folder: Path, nodes: Sequence[NodePlan], *, restart: bool, options: Sequence[str]) -> None:
    children = [Child(node, options) for node in nodes]
    stopping = threading.Event()
    on_stop_signal(stopping.set)
    # A request of a command that was killed.
    answer_request(folder, problem=None)
    try:
        for child in children:
            child.start()
        _wait_ready(children, stopping)
        if not stopping.is_set():
            print(f"ready {','.join(node.address for node in nodes)}", flush=True)
        while not stopping.wait(POLL_S):
            _restart_on_request(folder, children, stopping)
            _restart_exited(children, restart=restart)
            if not any(child.is_running or child.restart_at is not None for child in children):
                raise CommandError(f"All nodes have exited. The last log line is: {children[-1].last_log_line()}")
    finally:
        _stop(children)


def _wait_ready(children: Sequence[Child], stopping: threading.Event) -> None:
    deadline = time.monotonic() + READY_S_MAX
    while not stopping.is_set() and not all(child.ready.is_set() for child in children):
        for child in children:
            if child.exit_code is not None:
                raise CommandError(f"Node {child.node.node_id} did not start: {child.last_log_line()}")
        if time.monotonic() > deadline:
            late = ", ".join(str(child.node.node_id) for child in children if not child.ready.is_set())
            raise CommandError(
                f"Node {late} was not ready within {READY_S_MAX:.0f} s. See the logs in {children[0].log.parent}."
            )
        time.sleep(POLL_S / 2)


def _restart_on_request(folder: Path, children: Sequence[Child], stopping: threading.Event) -> None:
    """Restart the node that `penstock cluster restart` asks for."""
    wanted = read_request(folder)
    if wanted is None:
        return
    child = next((child for child in children if child.node.node_id == wanted), None)
    if child is None:
        answer_request(folder, problem=f"the cluster has no node {wanted}.")
        return
    child.terminate()
    child.wait(time.monotonic() + STOP_S_MAX)
    child.start()
    try:
        _wait_ready([child], stopping)
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
            print(f"node {child.node.node_id} restarted", file=sys.stderr, flush=True)


def _report(child: Child) -> None:
    code = child.exit_code
    how = f"was killed by signal {-code}" if code is not None and code < 0 else f"exited with code {code}"
    print(f"node {child.node.node_id} {how}; its log is {child.log}", file=sys.stderr, flush=True)


def _stop(children: Sequence[Child]) -> None:
    for child in children:
        child.terminate()
    until = time.monotonic() + STOP_S_MAX
    for child in children:
        child.wait(until)
