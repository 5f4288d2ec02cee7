"""`spark-pipeline.yml`, read and checked: the fields are Spark's, so that `spark-pipelines` runs the same file.

What is ours stands in `configuration` under `penstock.`: bootstrap.servers, provider, trigger, refresh, kafka.*.
Refuses with a PenstockClientError that names the file, what is wrong in it and what to write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from penstock_client.errors import PenstockClientError, nearest
from penstock_client.protocol.cluster import Cluster

FILES: Final = ("spark-pipeline.yml", "spark-pipeline.yaml")
FIELDS: Final = ("name", "storage", "catalog", "database", "schema", "configuration", "libraries")
PROVIDERS: Final = ("python", "jvm")
OWN: Final = "penstock."
CLIENT: Final = "kafka."
SETTINGS: Final = ("bootstrap.servers", "provider", "trigger", "refresh")
DEFAULT_BOOTSTRAP: Final = "localhost:9092"
EXAMPLE: Final = "docs/spark.md has an example"


@dataclass(frozen=True, slots=True)
class Spec:
    """A pipeline: where its files are, where it keeps its checkpoints, and Spark's settings."""

    name: str
    folder: Path
    storage: str
    catalog: str | None
    database: str | None
    globs: tuple[str, ...]
    spark: Mapping[str, str]
    bootstrap: str
    provider: str
    trigger: str
    refresh_s: float
    client: Mapping[str, str]
    """Settings of every client of the pipeline, `security.protocol` and the like, without their prefix."""

    def cluster(self, *, deadline_s: float = 60.0, request_timeout_s: float = 30.0) -> Cluster:
        return Cluster(self.bootstrap, self.client, deadline_s, request_timeout_s)

    def checkpoints(self, flow: str) -> str:
        """The folder of a flow's checkpoints, one for each replay."""
        return f"{self.storage}/checkpoints/{flow}"

    def tables(self, name: str) -> str:
        return f"{self.storage}/tables/{name}"

    @property
    def is_jvm(self) -> bool:
        return self.provider == "jvm"

    def with_changes(self, *, storage: str | None, bootstrap: str | None, provider: str | None) -> Spec:
        """What the command line says instead."""
        spec = self
        if storage is not None:
            spec = replace(spec, storage=_storage(storage, Path.cwd()))
        if bootstrap is not None:
            spec = replace(spec, bootstrap=bootstrap)
        if provider is not None:
            spec = replace(spec, provider=_provider(provider))
        return spec


def load_spec(where: Path, settings: Mapping[str, str] | None = None) -> Spec:
    """Read the spec of a folder, or the spec file itself; `settings` are laid over its configuration."""
    import yaml

    path = where if where.is_file() else _find(where)
    try:
        given = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise PenstockClientError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(given, dict):
        raise PenstockClientError(f"{path} says nothing: a pipeline needs name, storage and libraries ({EXAMPLE})")
    if settings:
        given["configuration"] = {**(given.get("configuration") or {}), **settings}
    return _unpack(given, path)


def _find(folder: Path) -> Path:
    if not folder.is_dir():
        raise PenstockClientError(f"there is no folder {folder}")
    found = [folder / name for name in FILES if (folder / name).is_file()]
    if not found:
        raise PenstockClientError(
            f"{folder} has no spark-pipeline.yml. Name the folder of a pipeline, or write one ({EXAMPLE})"
        )
    if len(found) > 1:
        raise PenstockClientError(f"{folder} has both {' and '.join(FILES)}: keep one")
    return found[0]


def _unpack(given: Mapping[str, Any], path: Path) -> Spec:
    for name in given:
        if name not in FIELDS:
            raise PenstockClientError(f"{path}: there is no field '{name}'.{nearest(str(name), FIELDS)}")
    for name in ("name", "storage"):
        if not isinstance(given.get(name), str) or not given[name]:
            raise PenstockClientError(f"{path}: the field '{name}' is missing ({EXAMPLE})")
    own, spark = _configuration(given.get("configuration") or {}, path)
    return Spec(
        name=given["name"],
        folder=path.parent.resolve(),
        storage=_storage(given["storage"], path.parent),
        catalog=given.get("catalog"),
        database=given.get("database", given.get("schema")),
        globs=tuple(_glob(entry, path) for entry in given.get("libraries") or []),
        spark=spark,
        bootstrap=own.get("bootstrap.servers", DEFAULT_BOOTSTRAP),
        provider=_provider(own.get("provider", "python")),
        trigger=own.get("trigger", "1 second"),
        refresh_s=_seconds(own.get("refresh", "30"), path),
        client={name.removeprefix(CLIENT): value for name, value in own.items() if name.startswith(CLIENT)},
    )


def _configuration(given: Any, path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Our settings without their prefix, and Spark's."""
    if not isinstance(given, dict):
        raise PenstockClientError(f"{path}: configuration must be a list of 'name: value' lines")
    for name, value in given.items():
        if not isinstance(value, str):
            raise PenstockClientError(f'{path}: configuration {name} must be text: write {name}: "{value}"')
    own = {name.removeprefix(OWN): value for name, value in given.items() if name.startswith(OWN)}
    for name in own:
        # Settings that pipeline files read for themselves have a name of their own behind the prefix.
        if name not in SETTINGS and "." not in name:
            known = [OWN + one for one in SETTINGS]
            raise PenstockClientError(f"{path}: there is no setting '{OWN}{name}'.{nearest(OWN + name, known)}")
    return own, dict(given)


def _provider(name: str) -> str:
    if name not in PROVIDERS:
        raise PenstockClientError(
            f"there is no provider '{name}': say python (the one that comes with Penstock) or jvm (Spark's Kafka "
            f"connector, whose jars spark.jars or spark.jars.packages must bring).{nearest(name, PROVIDERS)}"
        )
    return name


def _storage(text: str, base: Path) -> str:
    """Absolute, because Spark's workers stand elsewhere."""
    if "://" in text or text.startswith("file:"):
        return text.rstrip("/")
    return f"file://{(base / text).resolve()}"


def _glob(entry: Any, path: Path) -> str:
    try:
        include = str(entry["glob"]["include"])
    except (TypeError, KeyError):
        raise PenstockClientError(f"{path}: libraries must look like - glob: {{include: transformations/**}}") from None
    return f"{include}/*" if include.endswith("/**") else include


def _seconds(text: str, path: Path) -> float:
    try:
        return float(text)
    except ValueError:
        raise PenstockClientError(f"{path}: penstock.refresh is {text!r}, and must be seconds") from None
