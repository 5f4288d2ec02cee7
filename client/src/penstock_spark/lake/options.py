"""The options of the data source `lake`, parsed and checked.

An unknown option or format raises PenstockClientError, which names the most similar one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from penstock_client.errors import PenstockClientError, nearest

FORMATS: Final = ("parquet", "delta", "iceberg")
OPTIONS: Final = ("format", "path", "table", "mergeSchema", "compression")
_PREFIXES: Final = ("catalog.", "storage.")
_COMPRESSIONS: Final = ("zstd", "snappy", "gzip", "lz4", "none")
# Spark adds these to the options of every reader or writer.
_OF_SPARK: Final = frozenset({"checkpointlocation", "queryname", "outputmode", "__provider__"})


@dataclass(frozen=True, slots=True)
class LakeOptions:
    """The table, its format, and how to reach it."""

    format: str
    path: str
    table: str
    merge_schema: bool
    compression: str
    catalog: Mapping[str, str]
    storage: Mapping[str, str]


def lake_options(given: Mapping[str, str]) -> LakeOptions:
    options = {name.lower(): value for name, value in given.items()}
    known = {name.lower() for name in OPTIONS}
    for name in options:
        if name not in known and name not in _OF_SPARK and not name.startswith(_PREFIXES):
            raise PenstockClientError(f"unknown option '{name}' of the data source lake.{nearest(name, OPTIONS)}")
    kind = options.get("format", "parquet").lower()
    if kind not in FORMATS:
        raise PenstockClientError(
            f"unknown lake format '{kind}': use one of {', '.join(FORMATS)}.{nearest(kind, FORMATS)}"
        )
    path = options.get("path", "").rstrip("/")
    if not path:
        raise PenstockClientError(
            "the option path is missing: set it to the table's location, as in start('/data/orders')"
        )
    compression = options.get("compression", "zstd").lower()
    if compression not in _COMPRESSIONS:
        near = nearest(compression, _COMPRESSIONS)
        raise PenstockClientError(f"compression {compression!r} is not one of {', '.join(_COMPRESSIONS)}.{near}")
    return LakeOptions(
        format=kind,
        path=path,
        table=options.get("table", f"penstock.{PurePosixPath(path).name}"),
        merge_schema=_flag(options, "mergeSchema", True),
        compression=compression,
        catalog=_section(given, "catalog."),
        storage=_section(given, "storage."),
    )


def _section(given: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name[len(prefix) :]: value for name, value in given.items() if name.lower().startswith(prefix)}


def _flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name.lower(), str(default)).lower()
    if text not in ("true", "false"):
        raise PenstockClientError(f"the option {name} is {text!r}: set it to true or false")
    return text == "true"
