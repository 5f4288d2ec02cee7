"""A campaign of kills: `python -m tests.spark.chaos --kills 60 --seed 1`.

A stream copies a topic exactly-once on a cluster of three nodes while a feeder fills it. Python workers (also those
that plan and commit), the driver, and nodes are killed at random with kill -9. In the end a read_committed consumer
must find each row in the target once. `chaos_driver.py` is the driver's process.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from confluent_kafka import Producer

from tests.spark.log import Log
from tests.support.penstock_cluster import PenstockCluster

CHECKOUT = Path(__file__).parents[2]
ROWS_PER_SECOND = 500


class Feeder(threading.Thread):
    """A thread that writes numbered rows until it is stopped; librdkafka retries while brokers are down."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._address, self._topic = bootstrap, topic
        self._stopping = threading.Event()
        self.count = 0

    def run(self) -> None:
        producer = Producer({"bootstrap.servers": self._address, "enable.idempotence": True, "log_level": 0})
        while not self._stopping.wait(0.1):
            for _ in range(ROWS_PER_SECOND // 10):
                producer.produce(self._topic, key=str(self.count), value=str(self.count))
                self.count += 1
            producer.poll(0)
        assert producer.flush(120) == 0, "every row was acknowledged"

    def stop(self) -> None:
        self._stopping.set()
        self.join()


class Driver:
    """The process with the Spark session. It restarts its query whenever it fails."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._bootstrap, self._folder = bootstrap, folder
        self._process: subprocess.Popen[str] | None = None

    def start(self, *arguments: str) -> None:
        """Start, and wait until the query runs."""
        words = [sys.executable, "-m", "tests.spark.chaos_driver", self._bootstrap, str(self._folder / "checkpoint")]
        with (self._folder / "driver.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*words, *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=CHECKOUT,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("running"), f"the driver did not start: {line}"

    def finish(self) -> None:
        """Copy the remaining rows and exit."""
        self.start("finish")
        assert self._process is not None
        assert self._process.wait(600) == 0, f"the last run failed: {self.log()[-3000:]}"
        self._close()

    def log(self) -> str:
        return (self._folder / "driver.log").read_text(errors="replace")

    def kill(self) -> None:
        """Kill the session's processes, including workers."""
        if self._process is None:
            return
        for pid in [self._process.pid, *_descendants(self._process.pid)]:
            _kill(pid)
        self._process.wait()
        self._close()

    def _close(self) -> None:
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()
        self._process = None

    def workers(self) -> list[int]:
        """Return the Python processes below the JVM, without the daemons that start them."""
        assert self._process is not None
        parents = _parents()
        python = [pid for pid in _descendants(self._process.pid) if "daemon" in _command(pid)]
        return [pid for pid in python if "daemon" in _command(parents.get(pid, 0))]


def _parents() -> dict[int, int]:
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    return found


def _descendants(root: int) -> list[int]:
    parents = _parents()
    found: list[int] = []
    todo = [root]
    while todo:
        above = todo.pop()
        below = [pid for pid, parent in parents.items() if parent == above]
        found += below
        todo += below
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def campaign(kills: int, seed: int, *, say: bool = False) -> tuple[Counter[str], int]:
    """Kill this many times; return the number of kills by kind, and of rows. Fails if a row is lost or duplicated."""
    chosen = random.Random(seed)
    killed: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="spark-chaos-") as name, PenstockCluster(count=3) as nodes:
        folder = Path(name)
        with Log(nodes.bootstrap) as log:
            for topic in ("source", "target"):
                log.create(topic, 3, {"min.insync.replicas": "2"}, replicas=3)
            feeder = Feeder(nodes.bootstrap, "source")
            feeder.start()
            driver = Driver(nodes.bootstrap, folder)
            try:
                driver.start()
                while killed.total() < kills:
                    time.sleep(chosen.uniform(0.3, 3.0))
                    kind = chosen.choices(["worker", "node", "driver"], [6, 3, 1])[0]
                    unseen = [one for one in ("worker", "node", "driver") if not killed[one]]
                    if kills - killed.total() <= len(unseen):
                        kind = unseen[0]
                    if _strike(kind, chosen, nodes, driver, last=killed.total() == kills - 1):
                        killed[kind] += 1
                        if say:
                            print(f"{killed.total()} kills, {feeder.count} rows: {kind}", flush=True)
                feeder.stop()
                driver.kill()
                driver.finish()
            finally:
                driver.kill()
            check(log.committed_values("target"), feeder.count)
    return killed, feeder.count


def _strike(kind: str, chosen: random.Random, nodes: PenstockCluster, driver: Driver, *, last: bool) -> bool:
    """Kill one process of this kind, and restart it if Spark does not. Return False if there is none."""
    if kind == "worker":
        workers = driver.workers()
        if not workers:
            return False
        _kill(chosen.choice(workers))
    elif kind == "node":
        node = chosen.choice(nodes.ids)
        nodes.kill(node)
        time.sleep(chosen.uniform(0.0, 2.0))
        nodes.restart(node)
    else:
        driver.kill()
        if not last:  # the last driver is started next
            driver.start()
    return True


def check(seen: Counter[str], count: int) -> None:
    lost = [number for number in range(count) if str(number) not in seen]
    doubled = [value for value, times in seen.items() if times > 1]
    assert not lost and not doubled, (
        f"of {count} rows {len(lost)} are lost ({lost[:5]}) and {len(doubled)} are duplicated ({doubled[:5]})"
    )
    assert len(seen) == count, "there are rows that were not written"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    killed, rows = campaign(options.kills, options.seed, say=True)
    print(f"{killed.total()} kills ({dict(killed)}), {rows} rows: none lost, none duplicated")
    return 0


if __name__ == "__main__":
    sys.exit(main())
