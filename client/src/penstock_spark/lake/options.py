"""The options of the data source `lake`, checked once and held as values.

Refuses with a PenstockClientError an unknown option or format, naming the nearest one.
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
# Spark puts these among the options of every reader or writer.
_OF_SPARK: Final = frozenset({"checkpointlocation", "queryname", "outputmode", "__provider__"})


@dataclass(frozen=True, slots=True)
class LakeOptions:
    """Which table, of which format, and how it is reached."""

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
            raise PenstockClientError(f"the lake has no option '{name}'.{nearest(name, OPTIONS)}")
    kind = options.get("format", "parquet").lower()
    if kind not in FORMATS:
        raise PenstockClientError(f"the lake has no format '{kind}': say {', '.join(FORMATS)}.{nearest(kind, FORMATS)}")
    path = options.get("path", "").rstrip("/")
    if not path:
        raise PenstockClientError("say where the table is with the option path, as in start('/data/orders')")
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
        raise PenstockClientError(f"the option {name} is {text!r}: say true or false")
    return text == "true"
