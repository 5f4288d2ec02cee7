"""Run the instructions of ops/container/Containerfile in an empty directory, and use the result.

For machines without a container engine; `make container-check` runs it. The directory takes the place of the image's
file system: paths of the image are replaced by paths below it, and what the last stage does not copy is removed.
Commands that would change the users of this machine are only recorded. The node then runs as the image's user if this
script runs as root, and without a network if namespaces can be created. Exits with 1 at the first instruction or check
that fails.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONTAINERFILE = ROOT / "ops/container/Containerfile"
IGNORE_FILE = ROOT / "ops/container/Containerfile.dockerignore"
READY_S_MAX = 60.0
# Folders of the image that the instructions use. Everything else, such as /bin/sh, is that of this machine.
IMAGE_PATHS = re.compile(r"(?<![\w./])/(?=(?:build|opt/penstock|etc/penstock|var/lib/penstock)\b)")
RECORDED = ("groupadd", "useradd", "chown")


class Failed(Exception):
    """An instruction or a check failed; the message says which and how."""


@dataclass
class Image:
    """What the instructions have built so far."""

    folder: Path
    environment: dict[str, str]
    user: str = ""
    workdir: str = "/"
    volumes: list[str] = field(default_factory=list)
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    health: list[str] = field(default_factory=list)

    def path(self, name: str) -> Path:
        return self.folder / name.lstrip("/")

    def localized(self, text: str) -> str:
        return IMAGE_PATHS.sub(f"{self.folder}/", text)


def main() -> int:
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-container-") as name:
            folder = Path(name)
            folder.chmod(0o755)
            image = build(folder)
            check_image(image)
            check_node(image)
    except Failed as failure:
        print(f"container-check failed: {failure}", file=sys.stderr)
        return 1
    print("container-check passed")
    return 0


# -- build ---------------------------------------------------------------------------------------


def build(folder: Path) -> Image:
    say("build the wheels")
    for project in (ROOT / "client", ROOT):
        wheel = [str(ROOT / ".venv/bin/uv"), "build", "--quiet", "--wheel", "--out-dir", str(folder / "wheels")]
        run([*wheel, str(project)], environment=dict(os.environ), cwd=ROOT)
    context = folder / "context"
    gather_context(context, folder / "wheels")
    tools = folder / "tools"
    write_recorders(tools)
    image = Image(folder / "image", {"PATH": f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"})
    image.folder.mkdir()
    for instruction, rest in instructions(CONTAINERFILE.read_text()):
        say(f"{instruction} {rest}")
        carry_out(image, context, instruction, rest)
    image.environment["PATH"] = image.localized(image.environment["PATH"])
    return image


def gather_context(context: Path, wheels: Path) -> None:
    """Copy the files that the ignore file lets through: an instruction that needs another one fails."""
    patterns = [line[1:] for line in IGNORE_FILE.read_text().splitlines() if line.startswith("!")]
    for pattern in patterns:
        source = wheels.parent if pattern.startswith("dist/") else ROOT
        found = glob(str(source / pattern.replace("dist/", "wheels/")))
        if not found:
            raise Failed(f"no file matches {pattern} of {IGNORE_FILE.name}")
        for each in map(Path, found):
            target = context / Path(pattern).parent / each.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(each, target)


def write_recorders(tools: Path) -> None:
    """Write programs that take the place of those that change the users of a machine."""
    tools.mkdir()
    for name in RECORDED:
        program = tools / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> "{tools}/recorded"\n')
        program.chmod(0o755)


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the instructions without comments, with continued lines joined."""
    lines = "".join(f"{line}\n" for line in text.splitlines() if not line.lstrip().startswith("#"))
    for line in lines.replace("\\\n", " ").splitlines():
        if line.strip():
            instruction, _, rest = line.strip().partition(" ")
            yield instruction.upper(), " ".join(rest.split())


def carry_out(image: Image, context: Path, instruction: str, rest: str) -> None:
    match instruction:
        case "ARG" | "FROM" | "LABEL" | "EXPOSE" | "STOPSIGNAL":
            pass
        case "RUN":
            run(["/bin/sh", "-ec", image.localized(rest)], environment=image.environment, cwd=image.folder)
        case "COPY":
            copy(image, context, shlex.split(rest))
        case "ENV":
            name, _, value = rest.partition("=")
            image.environment[name] = value
        case "USER":
            image.user = rest
        case "WORKDIR":
            image.workdir = rest
        case "VOLUME":
            image.volumes.append(rest)
        case "ENTRYPOINT":
            image.entrypoint = json.loads(rest)
        case "CMD":
            image.command = json.loads(rest)
        case "HEALTHCHECK":
            image.health = json.loads(rest.partition("CMD ")[2])
        case _:
            raise Failed(f"{CONTAINERFILE.name} has the instruction {instruction}, which this script does not know")


def copy(image: Image, context: Path, words: list[str]) -> None:
    if words[0].startswith("--from="):
        _, source, target = words
        if source != target or not image.path(source).exists():
            raise Failed(f"cannot copy {source} to {target}: paths of a virtual environment must not change")
        # The last stage begins with an empty image.
        shutil.rmtree(image.path("/build"))
        return
    *sources, target = words
    found = [path for source in sources for path in glob(str(context / source))]
    if not found:
        raise Failed(f"COPY {' '.join(words)}: the context has no such file")
    for each in found:
        place = image.path(target) / Path(each).name if target.endswith("/") else image.path(target)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(each, place)


# -- checks --------------------------------------------------------------------------------------


def check_image(image: Image) -> None:
    say("check the image")
    recorded = (image.folder.parent / "tools/recorded").read_text()
    user, _, group = image.user.partition(":")
    expect(user.isdigit() and int(user) >= 1000, f"the user {image.user!r} must be a number above those of the system")
    expect(f"--uid {user} " in recorded and f"--gid {group} " in recorded, "the user of USER is not created")
    expect(image.volumes == ["/var/lib/penstock"], "the data folder is not a volume")
    expect("chown penstock:penstock" in recorded, "the volume does not belong to the user")
    expect(not image.path("/build").exists(), "the wheels are left in the image")
    settings = image.path("/etc/penstock/server.properties").read_text()
    expect("log.dirs=/var/lib/penstock/data" in settings, "the data is not in the volume")


def check_node(image: Image) -> None:
    """Start the node as the image does, check its health, and read back a record after a restart."""
    kafka, metrics = free_ports(2)
    settings = image.path("/etc/penstock/server.properties")
    text = image.localized(settings.read_text()).replace("9092", str(kafka)).replace("9404", str(metrics))
    settings.write_text(text)
    health = [word.replace("9404", str(metrics)) for word in image.health]
    isolation = Isolation(image)
    address = ["--bootstrap", f"localhost:{kafka}"]
    with isolation:
        say(f"start the node {isolation.description}")
        with node(image, isolation):
            say("check its health, and write a record")
            run_inside(image, isolation, health)
            run_inside(image, isolation, ["penstock", "topic", "create", "greetings", *address])
            run_inside(image, isolation, ["penstock", "produce", "greetings", *address], given="hello\n")
        expect(fails(image, isolation, health), "the health check succeeds without a node")
        with node(image, isolation):
            say("read the record after a restart")
            found = run_inside(image, isolation, ["penstock", "consume", "greetings", *address])
            expect(found == "hello\n", f"read {found!r} instead of the record")


class Isolation:
    """The surroundings of a node: a network namespace with a loopback interface only, and an unprivileged user."""

    def __init__(self, image: Image) -> None:
        self._uid = int(image.user.partition(":")[0])
        self._is_root = os.geteuid() == 0
        self._holder: subprocess.Popen[bytes] | None = None
        self._prefix: list[str] = []
        if self._is_root:
            data = image.path(image.volumes[0])
            os.chown(data, self._uid, self._uid)

    def __enter__(self) -> Isolation:
        tools = all(shutil.which(name) for name in ("unshare", "nsenter", "ip"))
        if self._is_root and tools and subprocess.run(["unshare", "--net", "true"], check=False).returncode == 0:
            # Holds the namespace open until its standard input is closed.
            script = "ip link set lo up && echo up && exec cat > /dev/null"
            self._holder = subprocess.Popen(
                ["unshare", "--net", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            assert self._holder.stdout is not None
            expect(self._holder.stdout.readline() == b"up\n", "cannot enable the loopback interface")
            self._prefix = ["nsenter", "--target", str(self._holder.pid), "--net"]
        return self

    def __exit__(self, *_: object) -> None:
        if self._holder is not None:
            self._holder.communicate()

    @property
    def description(self) -> str:
        user = f"as user {self._uid}" if self._is_root else "as this user"
        return f"{user}, {'without' if self._prefix else 'with'} a network"

    def command(self, words: Sequence[str]) -> list[str]:
        # setpriv comes with nsenter and unshare.
        ids = ["setpriv", "--reuid", str(self._uid), "--regid", str(self._uid), "--clear-groups"]
        return [*self._prefix, *(ids if self._is_root and shutil.which("setpriv") else []), *words]


@contextmanager
def node(image: Image, isolation: Isolation) -> Iterator[None]:
    words = [image.localized(word) for word in (*image.entrypoint, *image.command)]
    process = subprocess.Popen(
        isolation.command(resolved(image, words)),
        env=image.environment,
        cwd=image.path(image.workdir),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        if not line.startswith("ready "):
            process.kill()
            raise Failed(f"the node did not start: {process.stderr.read()[-1000:]}")
        yield
        process.send_signal(signal.SIGTERM)
        expect(process.wait(READY_S_MAX) == 0, "the node did not stop cleanly")
    finally:
        process.kill()
        process.communicate()


def resolved(image: Image, words: Sequence[str]) -> list[str]:
    """Find the program as the image does; `env` of this process would be searched otherwise."""
    program = shutil.which(words[0], path=image.environment["PATH"])
    expect(program is not None and program.startswith(str(image.folder)), f"{words[0]} is not in the image")
    return [str(program), *words[1:]]


def run_inside(image: Image, isolation: Isolation, words: Sequence[str], *, given: str = "") -> str:
    command = isolation.command(resolved(image, words))
    return run(command, environment=image.environment, cwd=image.path(image.workdir), given=given)


def fails(image: Image, isolation: Isolation, words: Sequence[str]) -> bool:
    try:
        run_inside(image, isolation, words)
    except Failed:
        return True
    return False


# -- helpers -------------------------------------------------------------------------------------


def run(words: Sequence[str], *, environment: dict[str, str], cwd: Path, given: str = "") -> str:
    # What names the registry of this machine reaches pip, and nothing else does.
    passed = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "HTTPS_PROXY"))}
    done = subprocess.run(
        words, env={**passed, **environment}, cwd=cwd, input=given, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Failed(f"{shlex.join(words)} ended with {done.returncode}: {(done.stderr or done.stdout)[-1000:]}")
    return done.stdout


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Failed(otherwise)


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
