"""Runs the blocks of a page in order, in a temporary directory and with a broker.

The documented ports are replaced by free ones, in commands and in the expected output. Commands that run until Ctrl-C
continue until the end of their block, and are then interrupted.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from penstock.testing import BrokerProcess
from tests.docs.markdown import ROOT, Block, Command
from tests.support.eventually import eventually
from tests.support.ports import adjacent_ports, free_ports

# Far longer than any command takes: one that needs it hangs.
COMMAND_S_MAX = 240
ENDLESS: Final = re.compile(r"penstock (cluster )?start\b|--follow\b|--watch\b")
SERVERS: Final = re.compile(r"penstock (cluster )?start\b")
INTERRUPTED: Final = (0, 128 + signal.SIGINT, -signal.SIGINT)


class Endless:
    """A command that runs until it is interrupted."""

    def __init__(self, words: Sequence[str], folder: Path, environment: dict[str, str], what: str) -> None:
        self._what = what
        self._path = folder / f"output-{len(list(folder.glob('output-*')))}"
        with self._path.open("wb") as output:
            # Its process group gets the signal, as from a terminal.
            self._process = subprocess.Popen(
                words, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )

    @property
    def output(self) -> str:
        return self._path.read_text()

    def wait_for(self, lines: Sequence[str]) -> None:
        """Wait for the expected output; if there is none, for any output."""

        def is_there() -> bool:
            assert self._process.poll() is None, f"{self._what} ended: {self.output}"
            return bool(self.output.strip()) and all(line in self.output for line in lines)

        eventually(is_there, what=f"the output of {self._what}")

    def interrupt(self) -> None:
        try:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGINT)
            code = self._process.wait(COMMAND_S_MAX)
        finally:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        assert code in INTERRUPTED, f"{self._what} ended with {code}: {self.output}"


class Shell:
    """The state of a reader who follows one page from top to bottom."""

    def __init__(self, folder: Path, *, programs: Path | None = None, broker_port: int | None = None) -> None:
        """`programs` has the commands, this environment by default. `broker_port` is that of a running broker."""
        self.folder = folder
        self._programs = programs or Path(sys.executable).parent
        self._has_broker = broker_port is not None
        self._broker: BrokerProcess | None = None
        self._stack = ExitStack()
        first, second, third = adjacent_ports(3)
        (metrics,) = free_ports(1)
        first = broker_port or first
        self._ports = {"9092": first, "9093": second, "9094": third, "9404": metrics}
        for name in ("examples", "ops"):
            (folder / name).symlink_to(ROOT / name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def broker(self) -> BrokerProcess:
        if self._broker is None:
            # The documented address is that of one node with the documented port.
            self._broker = self._stack.enter_context(BrokerProcess(host="localhost", port=self._ports["9092"]))
        return self._broker

    def run(self, block: Block) -> None:
        starts_own = any(SERVERS.search(command.text) for command in block.commands_if_console)
        if not starts_own:
            assert self._has_broker or self.broker.is_running
        elif self._broker is not None:
            # The block itself starts a node on the same port.
            self._broker.stop()
        try:
            if block.language == "python":
                self._run_python(block)
            else:
                self._run_console(block)
        finally:
            if starts_own and self._broker is not None:
                self._broker.start()

    def _run_console(self, block: Block) -> None:
        with ExitStack() as endless:
            for command in block.commands:
                words = ["bash", "-c", self._substituted(command.text)]
                what = f"{block}: $ {command.text}"
                if ENDLESS.search(command.text):
                    self._begin(words, what, endless, command.output)
                else:
                    self._check(words, what, command)

    def _run_python(self, block: Block) -> None:
        script = self.folder / f"test_block_{block.line}.py"
        python = str(self._programs / "python")
        script.write_text(self._substituted(block.text))
        if "def test_" in block.text:
            words = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", str(script)]
        else:
            words = [python, str(script)]
        if ".run()" in block.text:
            with ExitStack() as endless:
                self._begin(words, str(block), endless, ())
        else:
            self._check(words, str(block), Command("", ()))

    def _begin(self, words: list[str], what: str, endless: ExitStack, lines: Sequence[str]) -> None:
        process = Endless(words, self.folder, self._environment(), what)
        endless.callback(process.interrupt)
        process.wait_for([self._substituted(line) for line in lines])

    def _check(self, words: list[str], what: str, command: Command) -> None:
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=self._environment(),
            # Both streams, as in a terminal.
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_S_MAX,
            check=False,
        )
        assert done.returncode == 0, f"{what} ended with {done.returncode}: {done.stdout}"
        for line in command.output:
            shown = self._substituted(line)
            assert shown in done.stdout, f"{what} does not print {shown!r}: {done.stdout}"

    def _substituted(self, text: str) -> str:
        return re.sub(r"\b(9092|9093|9094|9404)\b", lambda port: str(self._ports[port[0]]), text)

    def _environment(self) -> dict[str, str]:
        # Another environment has its own packages.
        own = () if self._programs == Path(sys.executable).parent else ("PYTHONPATH", "VIRTUAL_ENV")
        return {
            **{name: value for name, value in os.environ.items() if name not in own},
            "PATH": f"{self._programs}{os.pathsep}{os.environ['PATH']}",
            "PENSTOCK_BOOTSTRAP": f"localhost:{self._ports['9092']}",
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "PYTHONUNBUFFERED": "1",
        }
