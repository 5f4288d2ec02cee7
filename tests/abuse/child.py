"""Processes of a campaign: attackers, the well-behaved client and the probe, controlled by lines of JSON."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[2]


class ChildFailed(Exception):
    """A process of the campaign exited early or hung: the campaign failed, not the node."""


class Child:
    """`python -m MODULE`: reads commands from standard input and writes results to standard output, in lines."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._name = " ".join((module, *arguments[:1]))
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=CHECKOUT,
        )  # fmt: skip
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def send(self, message: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise ChildFailed(f"{self._name} ended with {self._process.wait(5)}") from None

    def receive(self, *, seconds_max: float) -> Any:
        try:
            line = self._lines.get(timeout=seconds_max)
        except queue.Empty:
            raise ChildFailed(f"{self._name} printed nothing for {seconds_max:.0f} s") from None
        if line is None:
            raise ChildFailed(f"{self._name} ended with {self._process.wait(5)}")
        return json.loads(line)

    def has_answer(self) -> bool:
        return not self._lines.empty()

    def end(self) -> None:
        """End the process, which closes its sockets."""
        self._process.kill()
        self._process.wait()
        self._reader.join(5)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)


def send_to_parent(message: Any) -> None:
    """Write a line, in a child."""
    print(json.dumps(message), flush=True)


def receive_from_parent() -> Any:
    """Wait for the next line, in a child."""
    return json.loads(sys.stdin.readline())
