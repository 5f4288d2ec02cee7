"""Delta tables through `deltalake`: the fence is the `txn` action of the log (app id = query, version = batch)."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from penstock_client.errors import PenstockClientError
from penstock_spark.lake.files import Fence, StagedFile, file_system
from penstock_spark.lake.options import LakeOptions
from penstock_spark.lake.tables import new_columns

if TYPE_CHECKING:
    import pyarrow as pa

ATTEMPTS = 20


class Delta:
    """A Delta table. Every call reads the log again, because other writers may have changed it."""

    prefix = ""

    def __init__(self, options: LakeOptions) -> None:
        self._options = options
        self._uri = options.path.removeprefix("file://").removeprefix("file:")

    def schema(self) -> pa.Schema | None:
        import pyarrow as pa

        table = self._open()
        return None if table is None else pa.schema(table.schema().to_arrow())

    def files(self) -> list[str]:
        table = self._open()
        root = file_system(self._options.path)[1]
        return [] if table is None else [f"{root}/{name}" for name in _names(table)]

    def commit(self, staged: Sequence[StagedFile], schema: pa.Schema, fence: Fence, *, overwrite: bool) -> bool:
        for _ in range(ATTEMPTS):
            table = self._open() or self._create(schema)
            version = table.transaction_version(fence.query)
            if version is not None and version >= fence.batch:
                return False
            try:
                missing = new_columns(_arrow(table), schema, self._options)
                if missing:
                    self._add(table, missing)
                    continue
                table.create_write_transaction(
                    [_action(one) for one in staged],
                    mode="overwrite" if overwrite else "append",
                    schema=table.schema(),
                    # The library must not retry: each of our attempts checks the fence again.
                    commit_properties=CommitProperties(
                        max_commit_retries=0, app_transactions=[Transaction(fence.query, fence.batch)]
                    ),
                )
                return True
            except CommitFailedError:
                time.sleep(0.05)
        raise PenstockClientError(
            f"{self._uri}: lost the race with other writers {ATTEMPTS} times; the batch will be retried"
        )

    def committed(self, fence: Fence) -> bool:
        table = self._open()
        version = None if table is None else table.transaction_version(fence.query)
        return version is not None and version >= fence.batch

    def holds(self, names: Collection[str]) -> set[str]:
        table = self._open()
        return set() if table is None else set(names) & set(_names(table))

    def compact(self, *, size: int) -> tuple[int, int]:
        table = self._open()
        if table is None:
            raise PenstockClientError(f"no Delta table exists at {self._uri}")
        done = table.optimize.compact(target_size=size)
        return int(done["numFilesRemoved"]), int(done["numFilesAdded"])

    def _open(self) -> DeltaTable | None:
        try:
            return DeltaTable(self._uri, storage_options=dict(self._options.storage) or None)
        except TableNotFoundError:
            return None
        except DeltaError as error:
            raise PenstockClientError(f"the Delta table at {self._uri} cannot be read: {error}") from error

    def _create(self, schema: pa.Schema) -> DeltaTable:
        return DeltaTable.create(
            self._uri, schema=schema, mode="ignore", storage_options=dict(self._options.storage) or None
        )

    def _add(self, table: DeltaTable, fields: Sequence[pa.Field]) -> None:
        import pyarrow as pa
        from deltalake import Schema

        # Existing rows have no value in a new column.
        wanted: Any = pa.schema([field.with_nullable(True) for field in fields])
        table.alter.add_columns(Schema.from_arrow(wanted).fields)


def _arrow(table: DeltaTable) -> pa.Schema:
    import pyarrow as pa

    return pa.schema(table.schema().to_arrow())


def _names(table: DeltaTable) -> list[str]:
    """Return the file names relative to the table; the log stores them as URLs."""
    root = table.table_uri.rstrip("/").removeprefix("file://") + "/"
    return [unquote(uri.removeprefix("file://")).removeprefix(unquote(root)) for uri in table.file_uris()]


def _action(one: StagedFile) -> AddAction:
    return AddAction(
        path=one.name,
        size=one.size,
        partition_values={},
        modification_time=int(time.time() * 1000),
        data_change=True,
        stats=f'{{"numRecords": {one.rows}}}',
    )
