"""A real Spark Connect server on this machine, as a process with the settings in docs/spark.md."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import pyspark

from penstock_spark.java import ensure_java
from penstock_spark.session import SETTINGS
from tests.support.ports import HOST, free_ports

SPARK = Path(pyspark.__file__).parent
CHECKOUT = Path(__file__).parents[2]
START_S_MAX = 300.0


class ConnectServer:
    """A context manager; `url` is for spark.remote."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self._folder = folder
        self._settings = settings
        (self._port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"sc://{HOST}:{self._port}"

    @property
    def log(self) -> str:
        return (self._folder / "connect.log").read_text(errors="replace")

    def __enter__(self) -> ConnectServer:
        ensure_java()
        settings = {
            **SETTINGS,
            "spark.connect.grpc.binding.address": HOST,
            "spark.connect.grpc.binding.port": str(self._port),
            "spark.driver.memory": "1g",
            "spark.ui.enabled": "false",
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.sql.warehouse.dir": str(self._folder / "warehouse"),
            **self._settings,
        }
        words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        server = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", *words, "spark-internal"]
        environment = {**os.environ, "SPARK_HOME": str(SPARK), "PYSPARK_PYTHON": sys.executable}
        # Data sources registered by a test are found by their module.
        environment["PYTHONPATH"] = os.pathsep.join(str(CHECKOUT / folder) for folder in ("", "src", "client/src"))
        with (self._folder / "connect.log").open("wb") as log:
            self._process = subprocess.Popen(
                [str(SPARK / "bin" / "spark-submit"), *server], stdout=log, stderr=log, env=environment
            )
        deadline = time.monotonic() + START_S_MAX
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.__exit__(None, None, None)
                raise TimeoutError(f"Spark Connect does not respond: {self.log[-2000:]}")
            time.sleep(0.3)
        return self

    def _answers(self) -> bool:
        with socket.socket() as tried:
            return tried.connect_ex((HOST, self._port)) == 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
