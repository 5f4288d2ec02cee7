"""The load generator: `load.c`, compiled on first use, or a slower one in Python if there is no compiler.

`Load.produce`, `consume` and `latency` use librdkafka; `requests`, `paced` and `shares` (in C only) raw sockets. Each
returns the numbers that the generator printed. `echo` is a server for comparison.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("load.c")
BUILD = Path(__file__).parents[1] / ".cache" / "benchmarks"
PRODUCER = ("acks=all", "linger.ms=5", "batch.num.messages=10000", "queue.buffering.max.messages=1000000")
CONSUMER = ("group.id=load", "enable.auto.commit=false", "queued.min.messages=1000000")
SECONDS_MAX = 180


class LoadFailed(Exception):
    """The generator failed; the message says why."""


class Load:
    """The generator for this machine."""

    def __init__(self) -> None:
        self.note = ""
        self._command: list[str]
        library = librdkafka()
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is None or library is None:
            missing = "no C compiler" if compiler is None else "no librdkafka beside confluent-kafka"
            self.note = f"load by Python ({missing}): throughput figures are the client's limit, not the broker's"
            self._command = [sys.executable, "-m", "benchmarks.load_python"]
            self._library = "-"
        else:
            self._command = [str(_compiled(compiler))]
            self._library = str(library)

    @property
    def is_native(self) -> bool:
        return not self.note

    def produce(
        self, bootstrap: str, topic: str, *, count: int, size: int, settings: Sequence[str] = ()
    ) -> dict[str, Any]:
        return self._run("produce", self._library, bootstrap, topic, count, size, *PRODUCER, *settings)

    def consume(self, bootstrap: str, topic: str, *, count: int) -> dict[str, Any]:
        return self._run("consume", self._library, bootstrap, topic, count, *CONSUMER)

    def latency(self, bootstrap: str, topic: str, *, count: int, size: int, rate: int) -> dict[str, Any]:
        return self._run("latency", self._library, bootstrap, topic, count, size, rate, "acks=all", "linger.ms=1")

    def requests(
        self, bootstrap: str, frame: bytes, *, connections: int, depth: int, count: int, name: str = "frame"
    ) -> dict[str, Any]:
        """Run a consumer; `name` distinguishes generators that run at the same time."""
        host, _, port = bootstrap.rpartition(":")
        BUILD.mkdir(parents=True, exist_ok=True)
        file = BUILD / name
        file.write_bytes(frame)
        return self._run("requests", host, port, file, connections, depth, count)

    @contextmanager
    def paced(
        self, bootstrap: str, frames: Iterable[bytes], *, period: float, seconds: float, error_at: int
    ) -> Iterator[Callable[[], dict[str, Any]]]:
        """Connect once per frame; the returned callable sends each frame once per period and returns the numbers."""
        host, _, port = bootstrap.rpartition(":")
        BUILD.mkdir(parents=True, exist_ok=True)
        file = BUILD / "frames"
        file.write_bytes(b"".join(frames))
        words = [*self._command, "paced", host, port, str(file), str(period), str(seconds), str(error_at)]
        with subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()  # wait until it is connected

            def run() -> dict[str, Any]:
                out, error = process.communicate("go\n", timeout=SECONDS_MAX)
                if process.returncode != 0:
                    raise LoadFailed(f"paced: {error.strip()[-300:] or out.strip()}")
                numbers: dict[str, Any] = json.loads(out)
                return numbers

            yield run

    def shares(self, bootstrap: str, frames: bytes, *, work_ms: float, seconds: float) -> dict[str, Any]:
        """Read and accept records as the members of a share group; there are three frames for each member."""
        host, _, port = bootstrap.rpartition(":")
        BUILD.mkdir(parents=True, exist_ok=True)
        file = BUILD / "share-frames"
        file.write_bytes(frames)
        return self._run("shares", host, port, file, work_ms, seconds)

    @contextmanager
    def echo(self) -> Iterator[str]:
        """Return the address of an echo server, or None with the slower generator."""
        words = [*self._command, "echo", "127.0.0.1"]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            yield f"127.0.0.1:{process.stdout.readline().strip()}"
            process.communicate(timeout=SECONDS_MAX)

    def _run(self, *words: object) -> dict[str, Any]:
        done = subprocess.run(
            [*self._command, *map(str, words)], capture_output=True, text=True, timeout=SECONDS_MAX, check=False
        )
        if done.returncode != 0:
            raise LoadFailed(f"{words[0]}: {done.stderr.strip()[-300:] or done.stdout.strip()}")
        numbers: dict[str, Any] = json.loads(done.stdout)
        return numbers


def librdkafka() -> Path | None:
    """Return the path of the library in confluent-kafka."""
    import confluent_kafka

    beside = Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"
    return next(iter(sorted(beside.glob("librdkafka*"))), None)


def _compiled(compiler: str) -> Path:
    program = BUILD / "load"
    if not program.exists() or program.stat().st_mtime < SOURCE.stat().st_mtime:
        BUILD.mkdir(parents=True, exist_ok=True)
        subprocess.run([compiler, "-O2", "-o", str(program), str(SOURCE), "-ldl"], check=True)
    return program
