"""Spark's Python daemon with the modules that every worker needs preloaded.

Each worker of a task is a fork of the daemon and would otherwise load Arrow, numpy, pandas (which Arrow imports) and
Spark's worker again. The modules are also excluded from garbage collection: Spark collects after each task, before
the worker can take the next, and scanning these objects takes longer than a small task. A worker whose connection
Spark has closed exits silently (worker_exit.py). session.py enables it with `spark.python.daemon.module`; without it
everything works the same, a little slower.
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
