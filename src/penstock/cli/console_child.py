"""The web console as a child process of a broker, with a low priority."""

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Final, Self

from penstock.actions.port_owner import describe_owner
from penstock.cli.errors import CommandError
from penstock.cli.ports import choose_port, try_port

PORT: Final = 8080
NICE: Final = 10
STOP_S: Final = 5.0
NEEDED: Final = ("starlette", "uvicorn", "duckdb", "pyarrow")


def is_console_installed() -> bool:
    return all(find_spec(name) is not None for name in NEEDED)


def check_console_installed() -> None:
    if not is_console_installed():
        raise CommandError("The console needs the extra 'console'. Run: pip install 'penstock[console]'")


def choose_console_port() -> int:
    """Return the usual port of the console if it is free, and any free one otherwise."""
    return choose_port(PORT, owner="the console", option="--console-port")


def why_port_is_unusable(port: int) -> str | None:
    """Return why the console cannot listen on a port, or None if it can."""
    try:
        try_port(port)
    except OSError as error:
        return f"{error.strerror or error}. {describe_owner(port)}".rstrip()
    return None


class ConsoleChild:
    """A console that ends with this process. It prints its address itself."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(
        self,
        bootstrap: str,
        port: int,
        client_file: Path | None = None,
        *,
        options: Sequence[str] = (),
        output: IO[str] | None = None,
    ) -> None:
        """Start the console. With a file of client properties, users log in with their own passwords."""
        secured = ["--command-config", str(client_file), "--login"] if client_file is not None else []
        command = [sys.executable, "-m", "penstock.cli.main", "console", "--bootstrap", bootstrap]
        command += ["--port", str(port), "--stop-at-eof", *secured, *options]
        # The pipe to its standard input closes when this process ends, however that happens. The environment's
        # address and profile are those of other commands.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        self._process = subprocess.Popen(
            ["nice", "-n", str(NICE), *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )

    def stop(self) -> None:
        process = self._process
        if process is None:
            return
        self._process = None
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()
