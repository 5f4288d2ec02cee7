"""Kafka's jars and tools: if Java is installed, fetched once with Maven, run in one JVM.

The jars go to `.cache/kafka-4.3.1-<checksum of pom.xml>/` in the checkout (or come from the directory in
PENSTOCK_KAFKA_LIB). `JavaTools.run` calls a tool's main method and returns its output. Raises `JavaMissing`, whose
message is the reason of a skipped test.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.support.exclusive import exclusive
from tests.support.maven import JarsMissing, fetch_jars

KAFKA_VERSION = "4.3.1"
SOURCES = Path(__file__).parent / "java"
CHECKOUT = Path(__file__).parents[2]


class JavaMissing(Exception):
    """Java, Maven or the jars are not available; the message says which."""


def java() -> str:
    """Return the `java` command, at least version 17."""
    found = shutil.which("java")
    if found is None:
        raise JavaMissing("Java is not installed (17 or newer is needed for Kafka's tools)")
    return found


def kafka_jars() -> Path:
    """Return the directory with Apache Kafka's jars, fetching them with Maven the first time."""
    java()
    given = os.environ.get("PENSTOCK_KAFKA_LIB")
    if given:
        return Path(given)
    folder = CHECKOUT / ".cache" / f"kafka-{KAFKA_VERSION}-{zlib.crc32((SOURCES / 'pom.xml').read_bytes()):08x}"
    try:
        fetch_jars("Apache Kafka", SOURCES / "pom.xml", folder, "-DincludeScope=runtime")
    except JarsMissing as reason:
        raise JavaMissing(str(reason)) from None
    return folder


def compiled_classes() -> Path:
    """Compile the Java sources beside this file, unless that has been done."""
    compiler = shutil.which("javac")
    if compiler is None:
        raise JavaMissing("javac is not installed (a JDK is needed, a JRE is not enough)")
    jars = kafka_jars()
    sources = sorted(SOURCES.glob("*.java"))
    folder = CHECKOUT / ".cache" / "java-classes"
    stamp = folder / "stamp"
    newest = max(source.stat().st_mtime for source in sources)
    with exclusive(folder):
        if not stamp.exists() or stamp.stat().st_mtime <= newest:
            folder.mkdir(exist_ok=True)
            command = [compiler, "-cp", f"{jars}/*", "-d", str(folder), *map(str, sources)]
            subprocess.run(command, check=True, env=java_environment())
            stamp.touch()
    return folder


def java_environment() -> dict[str, str]:
    """Return an environment in which Java reads any path: it has no other way to learn the encoding of names."""
    return {**os.environ, "LC_ALL": "C.UTF-8"}


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return f"exit {self.code}\n{self.out}\n{self.err}"


class JavaTools:
    """One JVM that runs Kafka's command-line tools, one after another."""

    def __init__(self) -> None:
        classpath = f"{compiled_classes()}{os.pathsep}{kafka_jars()}/*"
        options = ["-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
        self._process = subprocess.Popen(
            [java(), *options, "-cp", classpath, "Runner"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=java_environment(),
        )  # fmt: skip
        assert self._process.stdin is not None and self._process.stdout is not None
        self._commands: IO[bytes] = self._process.stdin
        self._answers: IO[bytes] = self._process.stdout

    def run(self, tool: str, *arguments: str, stdin: str = "") -> ToolResult:
        """Run the main method of class `tool`; the caller checks the code and the output."""
        words: Sequence[bytes] = [word.encode() for word in (stdin, tool, *arguments)]
        self._commands.write(struct.pack(">i", len(words)))
        for word in words:
            self._commands.write(struct.pack(">i", len(word)) + word)
        self._commands.flush()
        (code,) = struct.unpack(">i", self._exactly(4))
        return ToolResult(code, self._text(), self._text())

    def check(self, tool: str, *arguments: str, stdin: str = "") -> str:
        """Run a tool that must succeed; return its output."""
        result = self.run(tool, *arguments, stdin=stdin)
        assert result.code == 0, f"{tool} {' '.join(arguments)}: {result.text}"
        return result.out

    def close(self) -> None:
        self._commands.close()
        self._process.wait(timeout=60)
        self._answers.close()

    def _text(self) -> str:
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size).decode(errors="replace")

    def _exactly(self, size: int) -> bytes:
        data = self._answers.read(size)
        if len(data) != size:
            raise RuntimeError(f"the JVM ended with code {self._process.wait()}")
        return data
