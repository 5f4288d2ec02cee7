"""A real standalone Spark on this machine: one master and two workers with one core each, as processes.

The workers have different addresses, because Spark starts no second attempt of a task on the same host.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from http.client import HTTPException
from pathlib import Path
from types import TracebackType
from typing import Any

import pyspark

from penstock_spark.java import ensure_java
from tests.support.ports import HOST, free_ports

SPARK = Path(pyspark.__file__).parent
START_S_MAX = 300.0
LOG_TAIL_SIZE = 2000
WORKERS = {"worker-1": HOST, "worker-2": "127.0.0.2"}


class Standalone:
    """A context manager; `url` is for spark.master."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port, self._web = free_ports(2)
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"spark://{HOST}:{self._port}"

    def __enter__(self) -> Standalone:
        ensure_java()
        master = ["master.Master", "--host", HOST, "--port", str(self._port), "--webui-port", str(self._web)]
        self._start("master", master)
        try:
            self._await(lambda state: state["status"] == "ALIVE")
            for name, host in WORKERS.items():
                place = ["--host", host, "--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / name)]
                self._start(name, ["worker.Worker", *place, self.url])
            self._await(lambda state: state["aliveworkers"] == 2)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def state(self) -> dict[str, Any]:
        """Return the status page of the master."""
        with urllib.request.urlopen(f"http://{HOST}:{self._web}/json/", timeout=60) as reply:
            return dict(json.load(reply))

    def workers_that_ran(self) -> int:
        """How many workers have had an executor: each keeps its folder."""
        return sum(1 for name in WORKERS if list((self._folder / name).glob("app-*/*/stderr")))

    def _start(self, name: str, words: list[str]) -> None:
        environment = {**os.environ, "SPARK_LOCAL_IP": HOST, "SPARK_DAEMON_MEMORY": "256m", "SPARK_HOME": str(SPARK)}
        command = [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{words[0]}", *words[1:]]
        with (self._folder / f"{name}.log").open("wb") as log:
            self._processes.append(subprocess.Popen(command, stdout=log, stderr=log, env=environment))

    def _await(self, is_there: Any) -> None:
        deadline = time.monotonic() + START_S_MAX
        while True:
            try:
                if is_there(self.state()):
                    return
            except (OSError, HTTPException, ValueError):
                pass  # the server is still starting
            if any(process.poll() is not None for process in self._processes):
                raise RuntimeError(f"a process of Spark ended: {self._logs()}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"Spark's master does not respond: {self._logs()}")
            time.sleep(0.3)

    def _logs(self) -> str:
        """Return the last output of each process."""
        paths = sorted(self._folder.glob("*.log"))
        return "\n".join(f"{path.name}: {path.read_text(errors='replace')[-LOG_TAIL_SIZE:]}" for path in paths)

    def _stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
