"""A broker in a separate process, which can be killed without warning as in a power failure.

Runs `penstock start` and waits for its `ready` line.
"""

import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.testing.defaults import DEFAULTS
from penstock.testing.ports import ReservedPort

STOP_TIMEOUT_S = 120.0


class BrokerProcess:
    """`penstock start` on a free port; `kill` is kill -9. Port and data survive `start` and `restart`.

    New groups start without a delay.
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        data: str | Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.settings: dict[str, str] = {**DEFAULTS, **(settings or {})}
        self.host = host
        self.port = port
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if data is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="penstock-")
            data = self._temporary.name
        self.data = Path(data)
        self._process: subprocess.Popen[str] | None = None
        self._reserved: ReservedPort | None = None

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log_path(self) -> Path:
        """Return the file with the process's standard error over all starts."""
        return self.data.with_name(self.data.name + ".stderr")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        finally:
            if self._reserved is not None:
                self._reserved.release()
            if self._temporary is not None:
                self._temporary.cleanup()
                self.log_path.unlink(missing_ok=True)

    def command(self) -> list[str]:
        words = [sys.executable, "-m", "penstock.cli.main", "start", "--data", str(self.data)]
        words += ["--host", self.host, "--port", str(self.port)]
        for name, value in self.settings.items():
            words += ["--set", f"{name}={value}"]
        return words

    def start(self) -> None:
        """Start; return after the ready line."""
        assert self._process is None, "the broker is running already"
        if self.port == 0:
            self._reserved = ReservedPort(self.host)
            self.port = self._reserved.number
        with self.log_path.open("ab") as log:
            process = subprocess.Popen(self.command(), stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdout is not None, "standard output is a pipe"
        line = process.stdout.readline()
        if not line.startswith("ready "):
            process.kill()
            process.wait()
            process.stdout.close()
            raise RuntimeError(f"the broker did not start: {line}{self.log_path.read_text()[-2000:]}")
        self._process = process

    def stop(self) -> int:
        """Stop the process; return its exit code, or 0 if it is not running."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process without warning."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        try:
            return process.wait(STOP_TIMEOUT_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
