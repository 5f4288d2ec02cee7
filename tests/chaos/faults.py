"""Faults drawn from a seed: at most one of three nodes is affected at a time."""

import random
import time
from collections.abc import Callable
from typing import NamedTuple

from tests.chaos.nodes import NodeProcess, Nodes


class Fault(NamedTuple):
    """One fault, for the report. Times are those of the monotonic clock."""

    kind: str
    node_id: int
    began: float
    ended: float


class Storm:
    """A sequence of faults: disturbs one node, lets it recover, pauses, and continues with the next."""

    def __init__(self, nodes: Nodes, seed: int) -> None:
        self._nodes = nodes
        self._random = random.Random(seed)
        self.faults: list[Fault] = []
        self._kinds: list[Callable[[NodeProcess], str]] = [
            self._kill,
            self._kill,
            self._stop,
            self._pause,
            self._pause_shortly,
            self._hold,
            self._cut,
            self._slow,
        ]

    def run(self, until: float) -> None:
        while time.monotonic() < until:
            node = self._random.choice(self._nodes.all)
            began = time.monotonic()
            kind = self._random.choice(self._kinds)(node)
            self.faults.append(Fault(kind, node.node_id, began, time.monotonic()))
            time.sleep(self._random.uniform(1.0, 6.0))

    def _kill(self, node: NodeProcess) -> str:
        node.kill()
        time.sleep(self._random.choice([0.0, 0.5, 3.0, 8.0]))
        node.start()
        return "kill -9"

    def _stop(self, node: NodeProcess) -> str:
        node.stop()
        time.sleep(self._random.uniform(0.0, 2.0))
        node.start()
        return "SIGTERM and restart"

    def _pause(self, node: NodeProcess) -> str:
        return self._paused(node, self._random.uniform(10.0, 14.0), "SIGSTOP until fenced")

    def _pause_shortly(self, node: NodeProcess) -> str:
        return self._paused(node, self._random.uniform(0.5, 4.0), "SIGSTOP")

    def _paused(self, node: NodeProcess, length_s: float, kind: str) -> str:
        node.pause()
        time.sleep(length_s)
        node.resume()
        return kind

    def _hold(self, node: NodeProcess) -> str:
        self._nodes.threads.call(node.proxy.hold)
        time.sleep(self._random.uniform(2.0, 12.0))
        self._nodes.threads.call(node.proxy.release)
        return "network cut"

    def _cut(self, node: NodeProcess) -> str:
        for _ in range(self._random.randint(1, 5)):
            self._nodes.threads.run(node.proxy.cut())
            time.sleep(0.3)
        return "connections reset"

    def _slow(self, node: NodeProcess) -> str:
        node.proxy.delay_s = self._random.uniform(0.02, 0.3)
        time.sleep(self._random.uniform(2.0, 6.0))
        self._nodes.threads.call(node.proxy.release)
        return "slow link"
