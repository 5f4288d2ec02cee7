"""Spark's Kafka connector: its jars, fetched once with Maven, without those that Spark includes.

The jars go to `.cache/spark-connector/` in the checkout, or come from the directory in PENSTOCK_SPARK_JARS.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.maven import JarsMissing, fetch_jars

POM = Path(__file__).parent / "connector-pom.xml"
CHECKOUT = Path(__file__).parents[2]


class ConnectorMissing(Exception):
    """The jars are not available; the message says why."""


def connector_jars() -> list[str]:
    given = os.environ.get("PENSTOCK_SPARK_JARS")
    folder = Path(given) if given else CHECKOUT / ".cache" / "spark-connector"
    try:
        fetch_jars("Spark's Kafka connector", POM, folder)
    except JarsMissing as reason:
        raise ConnectorMissing(str(reason)) from None
    return sorted(str(path) for path in folder.glob("*.jar"))
