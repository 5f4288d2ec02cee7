"""Spark sessions configured for Penstock: Java, filter pushdown, local checkpoints.

    from penstock_spark.session import builder
    spark = builder("orders").getOrCreate()

These are ordinary Spark settings; a session created in any other way works too.
"""

from __future__ import annotations

import os
from typing import Final

from pyspark.sql import SparkSession

from penstock_spark.java import ensure_java

SETTINGS: Final = {
    # Spark 4.3 caches the filtered read with the frame and uses it for the frame's next query without a filter:
    # df.where("partition = 0").count() would make df.count() count only partition 0. It is safe to turn on if each
    # query has its own frame.
    "spark.sql.python.filterPushdown.enabled": "false",
    # The default checkpoint manager needs a rename without overwriting, which Hadoop's local file system
    # offers only through native code that is rarely installed.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # Workers start with Arrow and this package preloaded; see daemon.py.
    "spark.python.daemon.module": "penstock_spark.daemon",
    # For data between the JVM and its Python workers. Over TCP each task waits 40 ms for a delayed acknowledgement,
    # and bulk data costs more.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}


def builder(name: str = "penstock", *, master: str | None = None) -> SparkSession.Builder:
    """Return a builder with the settings above; add your own before `getOrCreate`."""
    remote = os.environ.get("SPARK_REMOTE")
    if not remote:
        ensure_java()
    made = SparkSession.builder.appName(name)
    for key, value in SETTINGS.items():
        made = made.config(key, value)
    if master is not None:
        made = made.master(master)
    return made
