"""Tests of lake tables without Spark: the guarantees of a commit, for each format."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock_client.errors import PenstockClientError
from penstock_spark.lake.files import Fence, StagedFile, remove_files, write_file
from penstock_spark.lake.options import FORMATS, LakeOptions, lake_options
from penstock_spark.lake.tables import LakeTable, open_table

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("at", pa.timestamp("us", "UTC"))])
Stage = Callable[[Iterable[int]], list[StagedFile]]


class Folder:
    """A table in a directory, with helpers that act as a task and a reader."""

    def __init__(self, options: LakeOptions) -> None:
        self.options = options

    @property
    def table(self) -> LakeTable:
        return open_table(self.options)

    def stage(self, ids: Iterable[int], schema: pa.Schema = SCHEMA) -> list[StagedFile]:
        rows = [{"id": one, "name": f"n{one}", "at": one, "extra": one * 2} for one in ids]
        columns = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        return write_file(
            [batch], schema, folder=self.options.path, prefix=self.table.prefix, part="0-0", compression="zstd"
        )

    def ids(self) -> list[int]:
        return sorted(one for path in self.table.files() for one in pq.read_table(path)["id"].to_pylist())


@pytest.fixture(params=FORMATS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    return Folder(lake_options({"format": request.param, "path": str(tmp_path / "lake" / "orders")}))


def test_a_batch_is_committed_once_and_later_ones_follow(folder: Folder) -> None:
    assert folder.table.commit(folder.stage(range(10)), SCHEMA, Fence("q", 0), overwrite=False)
    assert not folder.table.commit(folder.stage(range(10)), SCHEMA, Fence("q", 0), overwrite=False)
    assert folder.table.commit(folder.stage(range(10, 20)), SCHEMA, Fence("q", 1), overwrite=False)
    assert folder.table.commit(folder.stage(range(20, 30)), SCHEMA, Fence("another", 0), overwrite=False)
    assert folder.ids() == list(range(30))
    assert folder.table.committed(Fence("q", 1)) and not folder.table.committed(Fence("q", 2))


def test_files_of_a_table_are_distinguished_from_unreferenced_files(folder: Folder) -> None:
    kept, dropped = folder.stage(range(5)), folder.stage(range(5))
    folder.table.commit(kept, SCHEMA, Fence("q", 0), overwrite=False)
    names = [one.name for one in [*kept, *dropped]]
    held = folder.table.holds(names)
    assert held == {one.name for one in kept}
    remove_files(folder.options.path, set(names) - held)
    assert folder.ids() == list(range(5))


def test_columns_are_added_and_are_null_in_old_rows(folder: Folder) -> None:
    folder.table.commit(folder.stage(range(5)), SCHEMA, Fence("q", 0), overwrite=False)
    wider = SCHEMA.append(pa.field("extra", pa.int64()))
    folder.table.commit(folder.stage(range(5, 10), wider), wider, Fence("q", 1), overwrite=False)
    folder.table.commit(folder.stage(range(10, 12)), SCHEMA, Fence("q", 2), overwrite=False)
    found = folder.table.schema()
    assert found is not None and found.names == ["id", "name", "at", "extra"]
    assert folder.ids() == list(range(12))


def test_a_column_of_another_type_is_rejected_before_anything_is_committed(folder: Folder) -> None:
    folder.table.commit(folder.stage(range(5)), SCHEMA, Fence("q", 0), overwrite=False)
    other = pa.schema([("id", pa.int64()), ("name", pa.int64())])
    with pytest.raises(PenstockClientError, match=r"column name is .*string in the table .* and int64 in the rows"):
        folder.table.commit([], other, Fence("q", 1), overwrite=False)
    assert folder.ids() == list(range(5))


def test_small_files_are_merged_and_no_row_is_lost(folder: Folder) -> None:
    for batch in range(6):
        rows = folder.stage(range(batch * 10, batch * 10 + 10))
        folder.table.commit(rows, SCHEMA, Fence("q", batch), overwrite=False)
    assert folder.table.compact(size=1 << 20) == (6, 1)
    assert len(folder.table.files()) == 1
    assert folder.ids() == list(range(60))
    assert not folder.table.commit(folder.stage(range(3)), SCHEMA, Fence("q", 5), overwrite=False), "the fence stays"
    assert folder.table.compact(size=1 << 20) == (0, 0)


@pytest.mark.parametrize("folder", ["delta", "iceberg"], indirect=True)
def test_a_table_is_overwritten_atomically(folder: Folder) -> None:
    folder.table.commit(folder.stage(range(5)), SCHEMA, Fence("q", 0), overwrite=False)
    folder.table.commit(folder.stage(range(50, 53)), SCHEMA, Fence("r", 0), overwrite=True)
    assert folder.ids() == [50, 51, 52]


def test_two_drivers_that_commit_the_same_batch_leave_one_of_them(folder: Folder) -> None:
    folder.table.commit(folder.stage(range(5)), SCHEMA, Fence("q", 0), overwrite=False)
    one, other = folder.table, folder.table
    first = one.commit(folder.stage(range(5, 10)), SCHEMA, Fence("q", 1), overwrite=False)
    second = other.commit(folder.stage(range(5, 10)), SCHEMA, Fence("q", 1), overwrite=False)
    assert (first, second) == (True, False)
    assert folder.ids() == list(range(10))


@pytest.mark.parametrize("folder", ["parquet"], indirect=True)
def test_a_driver_that_dies_between_decision_and_move_is_finished_by_the_next(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock_spark.lake.parquet import ParquetFolder

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    staged = folder.stage(range(5))
    with monkeypatch.context() as patched:
        patched.setattr(ParquetFolder, "_move", die)
        with pytest.raises(KeyboardInterrupt):
            folder.table.commit(staged, SCHEMA, Fence("q", 0), overwrite=False)
    assert folder.ids() == []
    assert folder.table.holds([one.name for one in staged]) == {one.name for one in staged}
    again = folder.stage(range(5))
    assert not folder.table.commit(again, SCHEMA, Fence("q", 0), overwrite=False)
    assert folder.ids() == list(range(5))


@pytest.mark.parametrize("folder", ["parquet"], indirect=True)
def test_a_compaction_that_dies_half_way_is_finished_by_the_next_commit(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock_spark.lake.parquet import ParquetFolder

    for batch in range(3):
        folder.table.commit(folder.stage([batch]), SCHEMA, Fence("q", batch), overwrite=False)
    real = ParquetFolder._move

    def die(self: ParquetFolder, names: list[str]) -> None:
        real(self, names)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ParquetFolder, "_move", die)
        with pytest.raises(KeyboardInterrupt):
            folder.table.compact(size=1 << 20)
    assert folder.ids() == [0, 0, 1, 1, 2, 2], "the intermediate state"
    folder.table.commit(folder.stage([3]), SCHEMA, Fence("q", 3), overwrite=False)
    assert folder.ids() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"format": "detla", "path": "/x"}, "Did you mean 'delta'"),
        ({"format": "delta"}, "the option path is missing"),
        ({"path": "/x", "formt": "delta"}, "unknown option 'formt' of the data source lake. Did you mean 'format'"),
        ({"path": "/x", "compression": "zsdt"}, "Did you mean 'zstd'"),
        ({"path": "/x", "mergeSchema": "yes"}, "set it to true or false"),
    ],
)
def test_unknown_options_are_reported_with_the_most_similar(options: dict[str, str], expected: str) -> None:
    with pytest.raises(PenstockClientError, match=expected):
        lake_options(options)
