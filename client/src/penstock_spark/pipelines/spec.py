"""Parser of `spark-pipeline.yml`. The fields are Spark's, so that `spark-pipelines` runs the same file.

Penstock's settings are in `configuration` under `penstock.`: bootstrap.servers, provider, trigger, refresh, kafka.*.
Raises PenstockClientError, which names the file, the mistake and the fix.
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
    """A pipeline: its files, its storage, and Spark's settings."""

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
    """Settings of every client of the pipeline, such as `security.protocol`, without their prefix."""

    def cluster(self, *, deadline_s: float = 60.0, request_timeout_s: float = 30.0) -> Cluster:
        return Cluster(self.bootstrap, self.client, deadline_s, request_timeout_s)

    def checkpoints(self, flow: str) -> str:
        """Return the directory of a flow's checkpoints, one for each replay."""
        return f"{self.storage}/checkpoints/{flow}"

    def tables(self, name: str) -> str:
        return f"{self.storage}/tables/{name}"

    @property
    def is_jvm(self) -> bool:
        return self.provider == "jvm"

    def with_changes(self, *, storage: str | None, bootstrap: str | None, provider: str | None) -> Spec:
        """Apply the overrides of the command line."""
        spec = self
        if storage is not None:
            spec = replace(spec, storage=_storage(storage, Path.cwd()))
        if bootstrap is not None:
            spec = replace(spec, bootstrap=bootstrap)
        if provider is not None:
            spec = replace(spec, provider=_provider(provider))
        return spec


def load_spec(where: Path, settings: Mapping[str, str] | None = None) -> Spec:
    """Load the spec of a directory, or a spec file; `settings` override its configuration."""
    import yaml

    path = where if where.is_file() else _find(where)
    try:
        given = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise PenstockClientError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(given, dict):
        raise PenstockClientError(f"{path} is empty: a pipeline needs name, storage and libraries ({EXAMPLE})")
    return _unpack(given, settings or {}, path)


def _find(folder: Path) -> Path:
    if not folder.is_dir():
        raise PenstockClientError(
            f"The directory {folder} does not exist. Give the directory of a pipeline ({EXAMPLE})"
        )
    found = [folder / name for name in FILES if (folder / name).is_file()]
    if not found:
        raise PenstockClientError(
            f"{folder} has no spark-pipeline.yml. Give the directory of a pipeline, or create the file ({EXAMPLE})"
        )
    if len(found) > 1:
        raise PenstockClientError(f"{folder} has both {' and '.join(FILES)}: delete one of them")
    return found[0]


def _unpack(given: Mapping[str, Any], settings: Mapping[str, str], path: Path) -> Spec:
    for name in given:
        if name not in FIELDS:
            raise PenstockClientError(f"{path}: unknown field '{name}'.{nearest(str(name), FIELDS)}")
    for name in ("name", "storage"):
        if not isinstance(given.get(name), str) or not given[name]:
            raise PenstockClientError(f"{path}: the field '{name}' is missing ({EXAMPLE})")
    own, spark = _configuration(given.get("configuration") or {}, settings, path)
    libraries = given.get("libraries") or []
    return Spec(
        name=given["name"],
        folder=path.parent.resolve(),
        storage=_storage(given["storage"], path.parent),
        catalog=given.get("catalog"),
        database=given.get("database", given.get("schema")),
        globs=tuple(_glob(entry, path) for entry in (libraries if isinstance(libraries, list) else [libraries])),
        spark=spark,
        bootstrap=own.get("bootstrap.servers", DEFAULT_BOOTSTRAP),
        provider=_provider(own.get("provider", "python")),
        trigger=own.get("trigger", "1 second"),
        refresh_s=_seconds(own.get("refresh", "30"), path),
        client={name.removeprefix(CLIENT): value for name, value in own.items() if name.startswith(CLIENT)},
    )


def _configuration(given: Any, settings: Mapping[str, str], path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return Penstock's settings without their prefix, and Spark's; `settings` override those of the file."""
    if not isinstance(given, dict):
        raise PenstockClientError(f"{path}: configuration must be a list of 'name: value' lines")
    given = given | dict(settings)
    for name, value in given.items():
        if not isinstance(value, str):
            raise PenstockClientError(f'{path}: configuration {name} must be a string: write {name}: "{value}"')
    own = {name.removeprefix(OWN): value for name, value in given.items() if name.startswith(OWN)}
    for name in own:
        # Settings that pipeline files read have their own name after the prefix.
        if name not in SETTINGS and "." not in name:
            known = [OWN + one for one in SETTINGS]
            raise PenstockClientError(f"{path}: unknown setting '{OWN}{name}'.{nearest(OWN + name, known)}")
    return own, dict(given)


def _provider(name: str) -> str:
    if name not in PROVIDERS:
        raise PenstockClientError(
            f"unknown provider '{name}': use python (included in Penstock) or jvm (Spark's Kafka "
            f"connector, whose jars must be in spark.jars or spark.jars.packages).{nearest(name, PROVIDERS)}"
        )
    return name


def _storage(text: str, base: Path) -> str:
    """Return an absolute location, because Spark's workers run in other directories."""
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
        raise PenstockClientError(f"{path}: penstock.refresh is {text!r}, but must be a number of seconds") from None
