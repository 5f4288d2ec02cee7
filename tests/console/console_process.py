"""`penstock console` as a process on a fixed port, so that a page can outlive a restart of it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

from tests.support.eventually import eventually
from tests.support.ports import HOST, free_ports

START_S_MAX = 120


class ConsoleProcess:
    """Serves from `start()` until `stop()`. `words` are more arguments of the command."""

    def __init__(self, bootstrap: str, *words: str, host: str = HOST) -> None:
        (self.port,) = free_ports(1)
        self._words = ["--bootstrap", bootstrap, "--host", host, "--port", str(self.port), *words]
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-console-")

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}"

    def page(self, path: str = "") -> str:
        """Return the address of a page of the cluster."""
        return f"{self.address}/c/local/{path}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the console is not running"
        return self._process.pid

    @property
    def log(self) -> str:
        return (Path(self._folder.name) / "console.log").read_text(errors="replace")

    def start(self) -> None:
        with (Path(self._folder.name) / "console.log").open("ab") as log:
            begin = len(self.log)
            process = self._process = subprocess.Popen(
                [sys.executable, "-m", "penstock.cli.main", "console", *self._words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        # It prints its address when browsers can connect.
        eventually(
            lambda: f":{self.port}/" in self.log[begin:] or process.poll() is not None,
            what="the start of the console",
            seconds_max=START_S_MAX,
        )
        assert process.poll() is None, self.log[-2000:]

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=60)
            self._process = None

    def __enter__(self) -> ConsoleProcess:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if error is not None:
            error.add_note(self.log[-3000:])
        self._folder.cleanup()
