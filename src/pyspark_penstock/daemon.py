"""Spark's Python daemon with what every worker needs already loaded.

Spark forks a process for each step of planning a query and for each commit of a batch, and each would load Arrow and
numpy anew: a tenth of a second each time. Loaded here once, they are there in every fork. session.py turns it on with
`spark.python.daemon.module`; without it everything works the same, a little later.
"""

import importlib
from typing import Final

_LOADED_AHEAD: Final = (
    "numpy",
    "pyarrow",
    "pyarrow.compute",
    "pyspark.sql.pandas.types",
    "pyspark_penstock.readers",
    "pyspark_penstock.scan",
    "pyspark_penstock.segments",
    "pyspark_penstock.sink_task",
    "pyspark_penstock.writers",
)


def main() -> None:
    for name in _LOADED_AHEAD:
        importlib.import_module(name)
    # Loads the worker that its first argument names, so it comes last.
    daemon = importlib.import_module("pyspark.daemon")
    daemon.manager()


if __name__ == "__main__":
    main()
