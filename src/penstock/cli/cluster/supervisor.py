"""Runs the nodes of a local cluster as child processes until a signal ends them all.

One `ready` line with every address once all are up. What a node logs goes to a file beside its data. A node that
dies is reported at once, and started again with --restart, after a growing pause.
"""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType

from penstock.actions.cluster.config_files import NodePlan
from penstock.cli.errors import CommandError

READY_S_MAX = 60.0
STOP_S_MAX = 45.0
LOOK_S = 0.1
PAUSE_S_MIN, PAUSE_S_MAX = 0.5, 10.0
STEADY_S = 30.0
"""A node that has run so long is taken to be well: its next pause is a short one again."""


class Child:
    def __init__(self, node: NodePlan, more: Sequence[str]) -> None:
        self.node = node
        self.log = node.data.with_suffix(".log")
        self._command = [sys.executable, "-m", "penstock.cli.main", "start", "--config", str(node.config), *more]
        self.ready = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self.started_at = 0.0
        self.pause_s = PAUSE_S_MIN
        self.start_again_at: float | None = None

    def start(self) -> None:
        self.ready.clear()
        self.start_again_at = None
        self.started_at = time.monotonic()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            # A group of its own: Ctrl-C reaches the parent, which stops the nodes in good order.
            self._process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
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

    def ask_to_stop(self) -> None:
        if self._process is not None and self.is_running:
            self._process.send_signal(signal.SIGTERM)

    def wait(self, until: float) -> None:
        if self._process is not None:
            try:
                self._process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return lines[-1] if lines else "it said nothing"


def run(nodes: Sequence[NodePlan], *, restart: bool, more: Sequence[str] = ()) -> None:
    children = [Child(node, more) for node in nodes]
    asked = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        asked.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    try:
        for child in children:
            child.start()
        _wait_ready(children, asked)
        if not asked.is_set():
            print(f"ready {','.join(node.address for node in nodes)}", flush=True)
        while not asked.wait(LOOK_S):
            _look_after(children, restart=restart)
            if not any(child.is_running or child.start_again_at is not None for child in children):
                raise CommandError(f"Every node has stopped: the last said '{children[-1].last_words()}'.")
    finally:
        _stop(children)


def _wait_ready(children: Sequence[Child], asked: threading.Event) -> None:
    deadline = time.monotonic() + READY_S_MAX
    while not asked.is_set() and not all(child.ready.is_set() for child in children):
        for child in children:
            if child.exit_code is not None:
                raise CommandError(f"Node {child.node.node_id} did not start: {child.last_words()}")
        if time.monotonic() > deadline:
            late = ", ".join(str(child.node.node_id) for child in children if not child.ready.is_set())
            raise CommandError(f"Node {late} was not ready in {READY_S_MAX:.0f} s: see {children[0].log.parent}.")
        time.sleep(LOOK_S / 2)


def _look_after(children: Sequence[Child], *, restart: bool) -> None:
    now = time.monotonic()
    for child in children:
        if child.exit_code is None:
            continue
        if child.start_again_at is None:
            if child.started_at == 0.0:
                continue
            _report(child)
            if now - child.started_at > STEADY_S:
                child.pause_s = PAUSE_S_MIN
            child.start_again_at = now + child.pause_s if restart else None
            child.pause_s = min(2 * child.pause_s, PAUSE_S_MAX)
            child.started_at = 0.0
        elif now >= child.start_again_at:
            child.start()
            print(f"node {child.node.node_id} is started again", file=sys.stderr, flush=True)


def _report(child: Child) -> None:
    code = child.exit_code
    how = f"was ended by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"
    print(f"node {child.node.node_id} {how}; its log is {child.log}", file=sys.stderr, flush=True)


def _stop(children: Sequence[Child]) -> None:
    for child in children:
        child.ask_to_stop()
    until = time.monotonic() + STOP_S_MAX
    for child in children:
        child.wait(until)
