"""Penstock as a process, with the same interface as the Apache Kafka peer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.support.ports import HOST, free_ports, wait_until_answered

MAIN = Path(__file__).with_name("penstock_main.py")
START_S_MAX = 120.0


class PenstockProcess:
    """`penstock start`, which serves from `start()` until `stop()`."""

    name = "Penstock"

    def __init__(
        self,
        *,
        properties: Mapping[str, str] | None = None,
        data: Path | None = None,
        environment: Mapping[str, str] | None = None,
        listeners: Mapping[str, str] | None = None,
        start_s_max: float = START_S_MAX,
    ) -> None:
        """`environment` extends the inherited environment; `listeners` are names with their security protocols."""
        self._start_s_max = start_s_max
        self._environment = dict(environment or {})
        self._folder = Path(tempfile.mkdtemp(prefix="penstock-"))
        self._data = data or self._folder / "data"
        self._properties = dict(properties or {})
        (self._port,) = free_ports(1)
        self._more = dict(zip(listeners or (), free_ports(len(listeners or ())), strict=True))
        if listeners:
            self._properties["listeners"] = ",".join(
                f"{name}://{HOST}:{port}" for name, port in {"PLAINTEXT": self._port, **self._more}.items()
            )
            self._properties["listener.security.protocol.map"] = ",".join(
                f"{name}:{protocol}" for name, protocol in {"PLAINTEXT": "PLAINTEXT", **listeners}.items()
            )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self._port}"

    def address(self, listener: str) -> str:
        """Return the address of a listener."""
        return self.bootstrap if listener == "PLAINTEXT" else f"{HOST}:{self._more[listener]}"

    @property
    def data(self) -> Path:
        return self._data

    @property
    def pid(self) -> int:
        assert self._process is not None, "Penstock is not running"
        return self._process.pid

    @property
    def log(self) -> str:
        """Return the output of the process so far."""
        return (self._folder / "server.log").read_text(errors="replace")

    def start(self) -> float:
        """Start the process; return the seconds until its first response."""
        settings = [word for key, value in self._properties.items() for word in ("--set", f"{key}={value}")]
        where = [] if "listeners" in self._properties else ["--host", HOST, "--port", str(self._port)]
        started = time.monotonic()
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(MAIN), "start", "--data", str(self._data), *where,
                 "--log-level", "warning", *settings],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ | self._environment,
            )  # fmt: skip
        try:
            wait_until_answered(self._port, seconds_max=self._start_s_max, pause=0.005)
        except TimeoutError as error:
            self.kill()
            raise TimeoutError(f"{error}: {self.log[-2000:]}") from None
        return time.monotonic() - started

    def stop(self) -> None:
        """Shut down cleanly with SIGTERM."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=120)
            self._process = None

    def kill(self) -> None:
        """Kill the process, as kill -9 does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> PenstockProcess:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
