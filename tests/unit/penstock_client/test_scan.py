"""Tests of the batches that an executor passes to Spark, without a broker or Spark."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("numpy", reason="the Spark parts are not installed: pip install 'penstock[spark]'")
pa = pytest.importorskip("pyarrow")

from penstock.wire.records import Record, encode_batch  # noqa: E402
from penstock_client.columns import Columns  # noqa: E402
from penstock_client.offsets import Range  # noqa: E402
from penstock_client.protocol.connection import PAD  # noqa: E402
from penstock_client.records.batches import scan  # noqa: E402
from penstock_client.scan import rows_of  # noqa: E402

SCHEMA = pa.schema(
    [("value", pa.binary()), ("topic", pa.string()), ("offset", pa.int64()), ("timestampType", pa.int32())]
)


def sent(values: list[bytes], wanted: Range) -> list[Any]:
    data = b"".join(
        encode_batch([Record(timestamp=1, value=value) for value in values[start : start + 50]], base_offset=start)
        for start in range(0, len(values), 50)
    )
    padded = bytearray(data + bytes(PAD))
    batches = list(scan(memoryview(padded), 0, len(data)))
    return list(rows_of(padded, batches, wanted, Columns(SCHEMA, "orders", 0), 32768))


def test_large_rows_are_sent_in_batches_of_a_few_megabytes_complete_and_in_order() -> None:
    values = [b"%d" % index * 5000 for index in range(400)]
    batches = sent(values, Range("orders", 0, 3, 390))
    assert len(batches) > 2
    assert all(0 < batch.nbytes < 4 << 20 for batch in batches)
    rows = pa.Table.from_batches(batches).to_pydict()
    assert rows["offset"] == list(range(3, 390))
    assert rows["value"] == values[3:390]
    assert set(rows["topic"]) == {"orders"}


def test_a_row_larger_than_a_batch_is_sent_alone() -> None:
    values = [bytes(5 << 20), b"small", bytes(3 << 20)]
    batches = sent(values, Range("orders", 0, 0, 3))
    assert [row for batch in batches for row in batch.column(0).to_pylist()] == values
    assert all(batch.num_rows for batch in batches)


def test_small_rows_are_sent_together() -> None:
    (batch,) = sent([b"small"] * 1000, Range("orders", 0, 0, 1000))
    assert batch.num_rows == 1000
