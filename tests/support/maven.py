"""Fetching of jars with Maven, once."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.support.exclusive import exclusive


class JarsMissing(Exception):
    """Maven is missing, or could not fetch the jars; the message says which."""


def fetch_jars(what: str, pom: Path, folder: Path, *options: str) -> None:
    """Copy the dependencies of a pom into a directory, unless they exist."""
    with exclusive(folder):
        if not folder.is_dir():
            _fetch(what, pom, folder, options)


def _fetch(what: str, pom: Path, folder: Path, options: tuple[str, ...]) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsMissing(f"Maven is not installed, and {what} has not been fetched before")
    partial = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={partial}", *options]
    # Neither Maven nor its JVM has another way to learn the encoding of file names.
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    fetched = subprocess.run(
        [maven, "-q", "-B", "-f", str(pom), *goal],
        capture_output=True, text=True, timeout=900, check=False, env=environment,
    )  # fmt: skip
    if fetched.returncode != 0:
        shutil.rmtree(partial)
        raise JarsMissing(f"Maven could not fetch {what}: {fetched.stdout.strip()[-300:]}")
    partial.rename(folder)
