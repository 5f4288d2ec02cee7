"""Our batches against kio's reader and writer of records.

kio keeps times as whole seconds, so the records here have no milliseconds.
"""

import io
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from kio.records import readers as kio_readers
from kio.records import schema as kio_schema
from kio.records import writers as kio_writers
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

from penstock.wire.batch import BatchHeader
from penstock.wire.records import Record, decode_batch, encode_batch

maybe_bytes = st.none() | st.binary(max_size=100)


@st.composite
def runs(draw: st.DrawFn) -> list[Record]:
    """Return records with rising offsets, gaps among them, and whole seconds."""
    offset = draw(st.integers(0, 2**40))
    records = []
    for _ in range(draw(st.integers(1, 12))):
        headers = draw(st.lists(st.tuples(st.binary(max_size=70), maybe_bytes), max_size=3))
        timestamp = draw(st.integers(0, 2**32)) * 1000
        records.append(Record(offset, timestamp, draw(maybe_bytes), draw(maybe_bytes), tuple(headers)))
        offset += draw(st.integers(1, 300))
    return records


def as_kios(record: Record) -> kio_schema.Record:
    return kio_schema.Record(
        attributes=i8(0),
        timestamp=TZAwareMicros.parse(datetime.fromtimestamp(record.timestamp // 1000, UTC)),
        offset=i64(record.offset),
        key=record.key,
        value=record.value,
        headers=tuple(kio_schema.RecordHeader(key=key, value=value) for key, value in record.headers),
    )


@given(
    records=runs(),
    leader_epoch=st.integers(-1, 2**31 - 1),
    producer_id=st.integers(-1, 2**62),
    producer_epoch=st.integers(-1, 2**15 - 1),
    base_sequence=st.integers(-1, 2**31 - 1),
)
def test_our_batch_is_kios_byte_for_byte(
    records: list[Record], leader_epoch: int, producer_id: int, producer_epoch: int, base_sequence: int
) -> None:
    out = io.BytesIO()
    kio_writers.write_batch(
        out,
        kio_schema.NewRecordBatch(
            producer_id=i64(producer_id),
            producer_epoch=i16(producer_epoch),
            partition_leader_epoch=i32(leader_epoch),
            base_sequence=i32(base_sequence),
            records=tuple(map(as_kios, records)),
            attributes=i16(0),
        ),
    )
    ours = encode_batch(
        records,
        base_offset=records[0].offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )
    assert ours == out.getvalue()
    assert decode_batch(ours) == records


@given(records=runs())
def test_kio_reads_our_batches(records: list[Record]) -> None:
    data = encode_batch(records, base_offset=records[0].offset, leader_epoch=4)
    kios, size = kio_readers.read_batch(data, 0)
    header = BatchHeader.at(data)
    assert size == len(data)
    assert kios.records == tuple(map(as_kios, records))
    assert (kios.base_offset, kios.batch_length, kios.crc) == (header.base_offset, header.length, header.crc)
    assert (kios.last_offset_delta, kios.max_timestamp) == (header.last_offset_delta, header.max_timestamp)
