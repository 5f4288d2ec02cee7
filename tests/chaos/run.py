"""One chaos run: three nodes, real clients, faults, then the simulator's checkers."""

import threading
import time
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from penstock_sim.checkers import check
from penstock_sim.history import OK, History
from tests.chaos.clients import Reader, Writer, read_back
from tests.chaos.faults import Storm
from tests.chaos.nodes import Nodes
from tests.chaos.report import LeaderChange, Outcome

TOPIC = "chaos"
PARTITIONS = 3
WRITERS = 2


def run(folder: Path, *, length_s: float, seed: int) -> tuple[Outcome, History]:
    history = History()
    with Nodes(folder) as nodes:
        admin = AdminClient({"bootstrap.servers": nodes.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(timeout=60)
        writers = [Writer(f"w{n}", nodes.bootstrap, TOPIC, PARTITIONS, history) for n in range(WRITERS)]
        reader = Reader("reader", nodes.bootstrap, TOPIC, PARTITIONS, history)
        watch = LeaderWatch(admin)
        began = time.monotonic()
        for thread in (*writers, reader, watch):
            thread.start()
        storm = Storm(nodes, seed)
        storm.run(began + length_s)
        ended = time.monotonic()
        nodes.heal()
        for writer in writers:
            writer.finish()
        watch.finish()
        reader.finish()
        read_back(nodes.bootstrap, TOPIC, PARTITIONS, history)
    violations = check(history)
    # After everything has healed, every send must have succeeded.
    violations += [f"{send.client} did not succeed: code {send.code}" for send in history.sends if send.outcome != OK]
    acknowledged = [each for writer in writers for each in writer.acknowledged]
    outcome = Outcome(began, ended, acknowledged, storm.faults, watch.changes, violations, PARTITIONS, len(nodes.all))
    return outcome, history


class LeaderWatch(threading.Thread):
    """A thread that records leader changes."""

    def __init__(self, admin: AdminClient) -> None:
        super().__init__(daemon=True)
        self._admin = admin
        self._stopped = threading.Event()
        self.changes: list[LeaderChange] = []

    def run(self) -> None:
        known: dict[int, int] = {}
        while not self._stopped.wait(0.5):
            try:
                topic = self._admin.list_topics(TOPIC, timeout=2).topics[TOPIC]
            except Exception:
                # No broker responds now, as is expected during faults.
                continue
            for index, partition in topic.partitions.items():
                if known.get(index, partition.leader) != partition.leader:
                    self.changes.append(LeaderChange(time.monotonic(), index, partition.leader))
                known[index] = partition.leader

    def finish(self) -> None:
        self._stopped.set()
        self.join(10)
