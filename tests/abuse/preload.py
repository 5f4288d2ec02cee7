"""The library that makes reads of chosen files fail, compiled on demand."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

SOURCE = Path(__file__).with_name("unreadable.c")


class NoCompiler(Exception):
    """No C compiler is installed."""


def read_faults(trigger: Path, stack: ExitStack) -> dict[str, str]:
    """Return the environment of a node whose reads fail once `trigger` says which (unreadable.c)."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise NoCompiler("a C compiler is needed, but cc is not installed")
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-abuse-"))
    library = Path(folder) / "unreadable.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return {"LD_PRELOAD": str(library), "UNREADABLE_TRIGGER": str(trigger)}
