"""A Spark session that is set up for Penstock: Java found, filters pushed down, local checkpoints that work.

    from penstock_spark.session import builder
    spark = builder("orders").getOrCreate()

Everything here is an ordinary Spark setting; a session made in any other way works too.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from pyspark.sql import SparkSession

from penstock_spark.java import ensure_java

SETTINGS: Final = {
    # Spark 4.3 keeps what was read for a filter with the frame, and uses it for the frame's next query without one:
    # df.where("partition = 0").count() would make df.count() count partition 0 alone. Whoever makes a frame for each
    # query may turn it on.
    "spark.sql.python.filterPushdown.enabled": "false",
    # The usual manager of checkpoints wants a rename without overwriting, which Hadoop's local file system
    # offers only through native code that is seldom there.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # Workers start with Arrow and this package loaded; see daemon.py.
    "spark.python.daemon.module": "penstock_spark.daemon",
    # Between the JVM and its Python workers. Over TCP each task waits forty milliseconds for a delayed acknowledgement,
    # and bulk data costs more.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}


def builder(name: str = "penstock", *, master: str | None = None) -> SparkSession.Builder:
    """A builder with the settings above; add your own before `getOrCreate`."""
    remote = os.environ.get("SPARK_REMOTE")
    if not remote:
        ensure_java()
    # Executors on this machine run this very Python, with what is installed in it.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    made = SparkSession.builder.appName(name)
    for key, value in SETTINGS.items():
        made = made.config(key, value)
    if master is not None:
        made = made.master(master)
    return made
