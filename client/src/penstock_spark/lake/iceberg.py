"""Iceberg tables through `pyiceberg`: files, fence and new columns change in one commit of the catalog.

The fence is a table property (`penstock.batch.<query>`), written in the transaction that adds the files; snapshots
also name query and batch, for diagnosis. Without `catalog.*` options the catalog is a SQLite file next to the table.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import Table

from penstock_client.errors import PenstockClientError
from penstock_spark.lake.files import Fence, StagedFile, file_system, write_file
from penstock_spark.lake.options import LakeOptions
from penstock_spark.lake.tables import new_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.manifest import DataFile

ATTEMPTS = 20
FENCE = "penstock.batch."


class Iceberg:
    """An Iceberg table. Every call reads the catalog again."""

    prefix = "data/"

    def __init__(self, options: LakeOptions) -> None:
        self._options = options
        self._root = file_system(options.path)[1]
        self._catalog = _catalog(options, self._root)

    def schema(self) -> pa.Schema | None:
        table = self._open()
        return None if table is None else _arrow(table)

    def files(self) -> list[str]:
        table = self._open()
        return [] if table is None else [_plain(file.file_path) for file in _data_files(table)]

    def commit(self, staged: Sequence[StagedFile], schema: pa.Schema, fence: Fence, *, overwrite: bool) -> bool:
        for _ in range(ATTEMPTS):
            table = self._open() or self._create(schema)
            if _fenced(table, fence):
                return False
            missing = new_columns(_arrow(table), schema, self._options)
            try:
                with table.transaction() as transaction:
                    if missing:
                        with transaction.update_schema() as update:
                            update.union_by_name(schema)
                    if overwrite:
                        transaction.delete(AlwaysTrue())
                    transaction.add_files(
                        [self._uri(one.name) for one in staged],
                        snapshot_properties={"penstock.query": fence.query, "penstock.batch": str(fence.batch)},
                        check_duplicate_files=False,
                    )
                    transaction.set_properties({FENCE + fence.query: str(fence.batch)})
                return True
            except CommitFailedException:
                time.sleep(0.05)
        raise PenstockClientError(
            f"{self._options.table}: lost the race with other writers {ATTEMPTS} times; the batch will be retried"
        )

    def committed(self, fence: Fence) -> bool:
        table = self._open()
        return table is not None and _fenced(table, fence)

    def holds(self, names: Collection[str]) -> set[str]:
        held = set(self.files())
        return {name for name in names if f"{self._root}/{name}" in held}

    def compact(self, *, size: int) -> tuple[int, int]:
        table = self._open()
        if table is None:
            raise PenstockClientError(f"the catalog has no Iceberg table {self._options.table}")
        small = [file for file in _data_files(table) if file.file_size_in_bytes < size]
        if len(small) < 2:
            return 0, 0
        joined = 0
        for group in _groups(small, size):
            self._join(table, group)
            table = table.refresh()
            joined += 1
        return len(small), joined

    def _join(self, table: Table, group: Sequence[DataFile]) -> None:
        """Replace files by one with the same rows. Fails without loss if another commit comes first."""
        import pyarrow.parquet as pq
        from pyiceberg.io.pyarrow import parquet_file_to_data_file

        schema = _arrow(table)
        system, _ = file_system(self._options.path)

        def batches() -> Sequence[pa.RecordBatch]:
            from penstock_spark.lake.reading import fitted

            found: list[pa.RecordBatch] = []
            for file in group:
                rows = pq.ParquetFile(system.open_input_file(_plain(file.file_path))).read()
                found += fitted(rows, schema).to_batches()
            return found

        staged = write_file(
            batches(), schema, folder=self._options.path, prefix=self.prefix, part="compact",
            compression=self._options.compression,
        )  # fmt: skip
        with table.transaction() as transaction, transaction.update_snapshot().overwrite() as snapshot:
            for file in group:
                snapshot.delete_data_file(file)
            for one in staged:
                made = parquet_file_to_data_file(table.io, table.metadata, self._uri(one.name))
                snapshot.append_data_file(made)

    def _uri(self, name: str) -> str:
        return f"{self._options.path}/{name}" if "://" in self._options.path else f"file://{self._root}/{name}"

    def _open(self) -> Table | None:
        try:
            return self._catalog.load_table(self._options.table)
        except NoSuchTableError:
            return None

    def _create(self, schema: pa.Schema) -> Table:
        namespace = self._options.table.rpartition(".")[0]
        if namespace:
            self._catalog.create_namespace_if_not_exists(namespace)
        location = self._options.path if "://" in self._options.path else f"file://{self._root}"
        try:
            return self._catalog.create_table(self._options.table, schema=schema, location=location)
        except TableAlreadyExistsError:
            return self._catalog.load_table(self._options.table)


def _catalog(options: LakeOptions, root: str) -> Catalog:
    if options.catalog:
        return load_catalog(options.catalog.get("name", "penstock"), **dict(options.catalog))
    system, folder = file_system(options.path.rpartition("/")[0] or ".")
    if system.type_name != "local":
        raise PenstockClientError(
            "an Iceberg table on a remote file system needs a catalog: set catalog.type, catalog.uri and the other "
            "options of pyiceberg as catalog.*"
        )
    system.create_dir(folder, recursive=True)
    database = PurePosixPath(folder) / "iceberg-catalog.db"
    return load_catalog("penstock", type="sql", uri=f"sqlite:///{database}", warehouse=f"file://{folder}")


def _fenced(table: Table, fence: Fence) -> bool:
    last = table.properties.get(FENCE + fence.query)
    return last is not None and int(last) >= fence.batch


def _arrow(table: Table) -> pa.Schema:
    import pyarrow as pa

    # Field ids belong to Iceberg; files are matched by name.
    return pa.schema([field.remove_metadata() for field in table.schema().as_arrow()])


def _data_files(table: Table) -> list[DataFile]:
    return [task.file for task in table.scan().plan_files()]


def _groups(files: Sequence[DataFile], size: int) -> list[list[DataFile]]:
    groups: list[list[DataFile]] = []
    room = 0
    for file in files:
        if not groups or room < file.file_size_in_bytes:
            groups.append([])
            room = size
        groups[-1].append(file)
        room -= file.file_size_in_bytes
    return [group for group in groups if len(group) > 1]


def _plain(uri: str) -> str:
    return uri.removeprefix("file://") if uri.startswith("file://") else uri.partition("://")[2]
