"""Spark's own Kafka connector: its jars, fetched once with Maven, without what Spark brings along itself.

The jars go to `.cache/spark-connector/` in the checkout, or are taken from the folder that PENSTOCK_SPARK_JARS names.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

POM = Path(__file__).parent / "connector-pom.xml"
CHECKOUT = Path(__file__).parents[2]


class ConnectorMissing(Exception):
    """The jars cannot be had here; says why."""


def connector_jars() -> list[str]:
    given = os.environ.get("PENSTOCK_SPARK_JARS")
    folder = Path(given) if given else CHECKOUT / ".cache" / "spark-connector"
    if not folder.is_dir():
        _fetch(folder)
    return sorted(str(path) for path in folder.glob("*.jar"))


def _fetch(folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ConnectorMissing("Maven is not installed, and the connector's jars have not been fetched before")
    partial = folder.with_name(f"{folder.name}.{os.getpid()}.part")
    partial.mkdir(parents=True)
    fetched = subprocess.run(
        [maven, "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={partial}"],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    if fetched.returncode != 0:
        shutil.rmtree(partial)
        raise ConnectorMissing(f"Maven could not fetch the connector's jars: {fetched.stdout.strip()[-300:]}")
    try:
        partial.rename(folder)
    except OSError:  # another run was quicker
        shutil.rmtree(partial)
