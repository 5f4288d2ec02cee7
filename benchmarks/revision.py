"""The source of an earlier revision, to measure it beside the present one."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = ("src", "client/src")


@contextmanager
def source_of(revision: str) -> Iterator[dict[str, str]]:
    """Unpack a revision; return the environment in which its modules are imported."""
    with tempfile.TemporaryDirectory(prefix="penstock-revision-") as folder:
        archive = subprocess.run(["git", "archive", revision], cwd=ROOT, stdout=subprocess.PIPE, check=False)
        if archive.returncode:
            raise SystemExit(f"git cannot read the revision {revision}")
        subprocess.run(["tar", "--extract", "--directory", folder], input=archive.stdout, check=True)
        yield {"PYTHONPATH": os.pathsep.join(str(Path(folder, source)) for source in SOURCES)}
