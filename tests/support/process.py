"""A broker in a process of its own, to be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

START_S_MAX = 20.0
STOP_S_MAX = 20.0


class BrokerProcess:
    """`penstock start` with its data in a folder. The same object starts again after a kill."""

    def __init__(self, data: Path, settings: Mapping[str, str] | None = None) -> None:
        self.data = data
        self.settings = dict(settings or {})
        self.port = 0
        self.start_s = 0.0
        self.log = data.parent / f"{data.name}.log"
        self._process: subprocess.Popen[str] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    def start(self) -> BrokerProcess:
        command = [sys.executable, "-m", "penstock.cli.main", "start", "--data", str(self.data)]
        command += ["--port", str(self.port), "--host", "127.0.0.1"]
        for name, value in self.settings.items():
            command += ["--set", f"{name}={value}"]
        began = time.monotonic()
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.start_s = time.monotonic() - began
        assert line.startswith("ready "), f"the broker did not start: {line!r}\n{self.log.read_text()[-2000:]}"
        # The next start takes the same port, as clients expect of a broker that comes back.
        self.port = int(line.rsplit(":", 1)[1])
        return self

    def kill(self) -> None:
        """kill -9: nothing is flushed, nothing is said."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        code = process.wait(timeout=STOP_S_MAX)
        assert process.stdout is not None
        process.stdout.close()
        return code

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def memory_mb(self) -> float:
        """Resident memory, peak excluded."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise AssertionError("no VmRSS in /proc")

    def faults(self) -> list[str]:
        """Lines of the log that no input may ever cause."""
        return [line for line in self.log.read_text().splitlines() if "Traceback" in line or " ERROR " in line]

    def __enter__(self) -> BrokerProcess:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill()
