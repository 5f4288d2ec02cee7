"""Spark support: lake tables, codecs, dead letters, and the runner of declarative pipelines.

Depends on penstock_client and PyPI packages. It does not import the broker, so executors need not install it.

The import makes Spark start its Python workers with this Python, unless PYSPARK_PYTHON is set. Spark's default is
`python3` from the PATH, which knows neither this package nor its data sources if the environment is not activated.
"""

import os
import sys

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
