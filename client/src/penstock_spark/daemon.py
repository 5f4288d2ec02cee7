"""Spark's Python daemon with what every worker needs already loaded.

Each worker of a task is a fork of it and would load Arrow, numpy, pandas (which Arrow asks for by itself) and Spark's
own worker anew. Loaded here once, they are there in every fork. They are also put out of the garbage collector's
sight: Spark collects after each task, before the worker can take the next, and looking at all of these modules'
objects takes longer than a small task. A worker that Spark has hung up on ends without a word (hanging_up.py).
session.py turns it on with `spark.python.daemon.module`; without it everything works the same, a little later.
"""

import gc
import importlib
import sys
from typing import Any, Final

from penstock_spark.worker_exit import without_complaint

_LOADED_AHEAD: Final = (
    "numpy",
    "pandas",
    "pyarrow",
    "pyarrow.compute",
    "pyspark.sql.pandas.types",
    "penstock_spark.topics.readers",
    "penstock_client.scan",
    "penstock_spark.topics.segments",
    "penstock_spark.topics.sink_task",
    "penstock_spark.topics.writers",
)


def main() -> None:
    for name in _LOADED_AHEAD:
        importlib.import_module(name)
    importlib.import_module(sys.argv[1] if len(sys.argv) > 1 else "pyspark.worker")
    daemon: Any = importlib.import_module("pyspark.daemon")
    daemon.worker = without_complaint(daemon.worker)
    gc.collect()
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
