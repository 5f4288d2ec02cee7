"""Build both distributions, install them outside the clone, and use them: `make release-check`.

Each step runs in a folder and a virtual environment of its own, so nothing of the checkout is found by accident:
from the wheels a broker, a record through the command line, a test with the pytest fixture, and the demo with Spark;
from the source distributions a broker and a record. Exits with 1 at the first step that fails.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).parents[1]
READY_S_MAX = 60.0
RESULT_S_MAX = 300.0
RESULT = re.compile(r"^\s+\d\d:\d\d:\d\d - \d\d:\d\d:\d\d\s+\w+\s+\d+", re.MULTILINE)
FIXTURE_TEST = """
from confluent_kafka import Producer


def test_a_record_is_acknowledged(penstock_broker):
    producer, seen = Producer({"bootstrap.servers": penstock_broker.bootstrap}), []
    producer.produce("orders", b"value", on_delivery=lambda error, message: seen.append((error, message.offset())))
    assert producer.flush(30) == 0
    assert seen == [(None, 0)]
"""


class Failed(Exception):
    """A step failed; the message says which and how."""


def main() -> int:
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-release-") as name:
            folder = Path(name)
            built = step("build wheels and source distributions", lambda: build(folder / "dist"))
            wheels = [path for path in built if path.suffix == ".whl"]
            sources = [path for path in built if path.name.endswith(".tar.gz")]
            check("wheels", folder / "wheels", wheels, lock="spark", is_full=True)
            check("source distributions", folder / "sources", sources, lock="run", is_full=False)
    except Failed as failure:
        print(f"release-check failed: {failure}", file=sys.stderr)
        return 1
    print("release-check passed")
    return 0


def check(kind: str, folder: Path, files: list[Path], *, lock: str, is_full: bool) -> None:
    """Install one kind of distribution into an empty environment and use it."""
    folder.mkdir()
    binaries = step(f"install the {kind}", lambda: install(folder, files, lock))
    step("start a broker and read back a record", lambda: produce_and_consume(binaries, folder))
    if is_full:
        step("run a test with the pytest fixture", lambda: run_fixture_test(binaries, folder))
        step("run the demo until Spark prints a result", lambda: run_demo(binaries, folder))


T = TypeVar("T")


def step(what: str, action: Callable[[], T]) -> T:
    print(f"{what} ...", end="", flush=True)
    began = time.monotonic()
    try:
        result = action()
    except Failed:
        print(" failed", flush=True)
        raise
    print(f" ok ({time.monotonic() - began:.0f} s)", flush=True)
    return result


def build(output: Path) -> list[Path]:
    for project in (ROOT / "client", ROOT):
        run([str(ROOT / ".venv/bin/uv"), "build", "--quiet", "--out-dir", str(output), str(project)], ROOT)
    files = sorted(path for path in output.iterdir() if path.name.endswith((".whl", ".tar.gz")))
    if len(files) != 4:
        raise Failed(f"expected two wheels and two source distributions, found {[path.name for path in files]}")
    return files


def install(folder: Path, files: list[Path], lock: str) -> Path:
    """Create a virtual environment with the locked dependencies and these files; return its bin folder."""
    venv.create(folder / "venv", with_pip=True)
    binaries = folder / "venv/bin"
    pip = [str(binaries / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, "--require-hashes", "--requirement", str(ROOT / f"requirements/{lock}.lock")], folder)
    if lock == "spark":
        run([*pip, "--constraint", str(versions(folder)), "pytest", "pytest-asyncio"], folder)
    run([*pip, "--no-deps", "--no-build-isolation", *map(str, files)], folder)
    return binaries


def versions(folder: Path) -> Path:
    """Write the versions of the lock for development without its hashes, which pip does not take as constraints."""
    lines = (ROOT / "requirements/dev.lock").read_text().splitlines()
    path = folder / "constraints.txt"
    path.write_text("".join(line.removesuffix(" \\") + "\n" for line in lines if re.match(r"[\w.-]+==", line)))
    return path


def produce_and_consume(binaries: Path, folder: Path) -> None:
    penstock = str(binaries / "penstock")
    with process([penstock, "start", "--data", "data", "--port", "0"], folder) as broker:
        bootstrap = wait_for(broker, re.compile(r"^ready (\S+)", re.MULTILINE), READY_S_MAX).group(1)
        address = ["--bootstrap", bootstrap]
        run([penstock, "topic", "create", "greetings", *address], folder)
        run([penstock, "produce", "greetings", *address], folder, given="hello\n")
        found = run([penstock, "consume", "greetings", *address], folder)
        if found.strip() != "hello":
            raise Failed(f"penstock consume printed {found!r}")


def run_fixture_test(binaries: Path, folder: Path) -> None:
    (folder / "test_fixture.py").write_text(FIXTURE_TEST)
    run([str(binaries / "python"), "-m", "pytest", "-q", "test_fixture.py"], folder)


def run_demo(binaries: Path, folder: Path) -> None:
    with process([str(binaries / "penstock"), "demo", "--data", "demo-data", "--port", "0"], folder) as demo:
        wait_for(demo, RESULT, RESULT_S_MAX)


# -- processes -----------------------------------------------------------------------------


def environment() -> dict[str, str]:
    """Return this process's environment without what would lead back to the checkout."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}


def run(command: list[str], folder: Path, *, given: str | None = None) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment(), input=given, text=True, capture_output=True, check=False
    )
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)} exited with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


@contextmanager
def process(command: list[str], folder: Path) -> Iterator[Path]:
    """Run a command; yield the file that its output goes to. It must end with 0 after SIGINT."""
    output = folder / f"{Path(command[0]).name}-{command[1]}.log"
    with output.open("wb") as file:
        running = subprocess.Popen(command, cwd=folder, env=environment(), stdout=file, stderr=subprocess.STDOUT)
    try:
        yield output
        running.send_signal(signal.SIGINT)
        code = running.wait(120)
    finally:
        running.kill()
        running.wait()
    if code != 0:
        raise Failed(f"{' '.join(command)} exited with {code}\n{output.read_text()}")


def wait_for(output: Path, pattern: re.Pattern[str], seconds_max: float) -> re.Match[str]:
    deadline = time.monotonic() + seconds_max
    while time.monotonic() < deadline:
        if found := pattern.search(output.read_text(errors="replace")):
            return found
        time.sleep(0.1)
    raise Failed(f"'{pattern.pattern}' did not appear within {seconds_max:.0f} s:\n{output.read_text()}")


if __name__ == "__main__":
    sys.exit(main())
