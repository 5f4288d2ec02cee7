"""Directories of Parquet files that any reader may list, with a commit log in them.

    _penstock_staging/             files of tasks; readers skip names with an underscore
    _penstock_commits/<query>/<batch>.json     the decision: the files of this batch
    _penstock_compactions/<id>.json            files to replace by one with their rows; deleted afterwards
    part-*.parquet                 committed files

The decision is written first, atomically; then its files are moved out of staging. A batch that runs again finds
the decision, finishes the moves, and drops its own new files.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock_client.errors import PenstockClientError
from penstock_spark.lake.files import Fence, StagedFile, file_system, write_file
from penstock_spark.lake.options import LakeOptions
from penstock_spark.lake.tables import new_columns

if TYPE_CHECKING:
    import pyarrow as pa

STAGING: Final = "_penstock_staging/"
COMMITS: Final = "_penstock_commits"
COMPACTIONS: Final = "_penstock_compactions"
# Spark repeats only a query's last batch; older decisions are kept for diagnosis.
DECISIONS_KEPT: Final = 50


class ParquetFolder:
    """A directory of Parquet files. A file is committed if a decision names it, moved or not."""

    prefix = STAGING

    def __init__(self, options: LakeOptions) -> None:
        self._options = options
        self._system, self._root = file_system(options.path)

    def schema(self) -> pa.Schema | None:
        """Return the schema of the newest file, which has every column: removed columns stay as nulls."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        schemas = [pq.read_schema(path, filesystem=self._system) for path in self.files()]
        return pa.unify_schemas(schemas) if schemas else None

    def files(self) -> list[str]:
        return sorted(
            one.path
            for one in self._list(self._root)
            if one.base_name.endswith(".parquet") and not one.base_name.startswith(("_", "."))
        )

    def commit(self, staged: Sequence[StagedFile], schema: pa.Schema, fence: Fence, *, overwrite: bool) -> bool:
        if overwrite:
            raise PenstockClientError(
                "a directory of Parquet files cannot be overwritten atomically: write to a new path, or use "
                "format=delta or format=iceberg"
            )
        self._finish_compactions()
        if not self._finish(fence):
            return False
        table = self.schema()
        if table is not None:
            new_columns(table, schema, self._options)
        decision = {"query": fence.query, "batch": fence.batch, "files": [one.name for one in staged]}
        if not self._publish(self._decision(fence), json.dumps(decision).encode()):
            self._finish(fence)
            return False
        self._move([one.name for one in staged])
        self._forget(fence)
        return True

    def committed(self, fence: Fence) -> bool:
        last = self._last(fence.query)
        return last is not None and last >= fence.batch

    def holds(self, names: Collection[str]) -> set[str]:
        """Return the names that a decision lists: they are committed even if they have not been moved yet."""
        decided: set[str] = set()
        for query in self._list(f"{self._root}/{COMMITS}"):
            for one in self._decisions(query.path):
                decided.update(self._read(one.path)["files"])
        return set(names) & decided

    def compact(self, *, size: int) -> tuple[int, int]:
        """Merge small files. A reader that lists the directory meanwhile may see rows twice: compact between reads."""
        import pyarrow.parquet as pq

        from penstock_spark.lake.reading import fitted

        if self._exists(f"{self._root}/_spark_metadata"):
            raise PenstockClientError(
                f"{self._options.path} is managed by Spark's file sink, which does not allow other changes; "
                "use a table with format=delta, which can be compacted"
            )
        self._finish_compactions()
        schema = self.schema()
        small = [path for path in self.files() if self._system.get_file_info(path).size < size]
        if schema is None or len(small) < 2:
            return 0, 0
        rows = (
            batch
            for path in small
            for batch in fitted(pq.read_table(path, filesystem=self._system), schema).to_batches()
        )
        staged = write_file(
            rows, schema, folder=self._options.path, prefix=STAGING, part="compact",
            compression=self._options.compression,
        )  # fmt: skip
        plan = {"files": [one.name for one in staged], "joined": [path.rpartition("/")[2] for path in small]}
        self._publish(f"{self._root}/{COMPACTIONS}/{secrets.token_hex(8)}.json", json.dumps(plan).encode())
        self._finish_compactions()
        return len(small), len(staged)

    def _finish_compactions(self) -> None:
        """Finish the file replacements that were planned, by this or another process."""
        for one in self._decisions(f"{self._root}/{COMPACTIONS}"):
            plan = self._read(one.path)
            self._move(plan["files"])
            for name in plan["joined"]:
                if self._exists(f"{self._root}/{name}"):
                    self._system.delete_file(f"{self._root}/{name}")
            self._system.delete_file(one.path)

    def _finish(self, fence: Fence) -> bool:
        """Move staged files of the last decision after a driver crash. Return False if this batch was decided."""
        last = self._last(fence.query)
        if last is None:
            return True
        self._move(self._read(self._decision(Fence(fence.query, last)))["files"])
        return last < fence.batch

    def _move(self, names: Sequence[str]) -> None:
        for name in names:
            source = f"{self._root}/{name}"
            if self._exists(source):
                self._system.move(source, f"{self._root}/{name.removeprefix(STAGING)}")

    def _publish(self, target: str, content: bytes) -> bool:
        """Write a decision atomically; return False if one exists."""
        self._system.create_dir(target.rpartition("/")[0], recursive=True)
        draft = f"{target}.{secrets.token_hex(4)}.draft"
        with self._system.open_output_stream(draft) as stream:
            stream.write(content)
        if self._system.type_name != "local":
            self._system.move(draft, target)
            return True
        try:
            os.link(draft, target)
        except FileExistsError:
            return False
        finally:
            os.unlink(draft)
        return True

    def _last(self, query: str) -> int | None:
        folder = f"{self._root}/{COMMITS}/{query}"
        return max((int(one.base_name.removesuffix(".json")) for one in self._decisions(folder)), default=None)

    def _forget(self, fence: Fence) -> None:
        for one in self._decisions(f"{self._root}/{COMMITS}/{fence.query}"):
            if int(one.base_name.removesuffix(".json")) <= fence.batch - DECISIONS_KEPT:
                self._system.delete_file(one.path)

    def _decision(self, fence: Fence) -> str:
        return f"{self._root}/{COMMITS}/{fence.query}/{fence.batch}.json"

    def _read(self, path: str) -> dict[str, Any]:
        with self._system.open_input_stream(path) as stream:
            return dict(json.loads(stream.read()))

    def _exists(self, path: str) -> bool:
        return bool(self._system.get_file_info(path).type.name != "NotFound")

    def _decisions(self, folder: str) -> list[Any]:
        """List decisions, without drafts that a crashed process may have left."""
        return [one for one in self._list(folder) if one.base_name.endswith(".json")]

    def _list(self, folder: str) -> list[Any]:
        from pyarrow import fs

        return list(self._system.get_file_info(fs.FileSelector(folder, allow_not_found=True)))
