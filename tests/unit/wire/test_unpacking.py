"""Decompression runs in steps that are small whatever the stream contains."""

import tracemalloc
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.errors import CorruptMessage, InvalidRecord
from penstock.model.job import finish
from penstock.wire.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD
from penstock.wire.compression import compress, decompress
from penstock.wire.unpacking import CHUNK_SIZE, DECOMPRESSED_SIZE_MAX, memory_needed, pull, unpack

CODECS = (NONE, GZIP, SNAPPY, LZ4, ZSTD)
BOMB_SIZE = 30_000_000


def steps(codec: int, packed: bytes, **options: Any) -> Iterator[bytes]:
    chunks = unpack(codec, memoryview(packed), **options)
    item = next(chunks, None)
    while item is not None:
        if callable(item):
            item = chunks.send(item())
            continue
        yield item
        item = next(chunks, None)


@pytest.mark.parametrize("codec", CODECS)
def test_no_step_returns_more_than_a_chunk(codec: int) -> None:
    packed = compress(codec, bytes(BOMB_SIZE))
    size = 0
    for chunk in steps(codec, packed):
        assert len(chunk) <= CHUNK_SIZE
        size += len(chunk)
    assert size == BOMB_SIZE


@pytest.mark.parametrize("codec", (GZIP, SNAPPY, LZ4))
def test_a_decompression_bomb_is_never_held_in_memory(codec: int) -> None:
    packed = compress(codec, bytes(BOMB_SIZE))
    tracemalloc.start()
    try:
        for _ in steps(codec, packed):
            pass
        assert tracemalloc.get_traced_memory()[1] < 6_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", CODECS)
def test_decompression_stops_at_the_limit(codec: int) -> None:
    packed = compress(codec, bytes(1_000_000))
    made = 0
    with pytest.raises(InvalidRecord):
        for chunk in steps(codec, packed, limit=100_000):
            made += len(chunk)
    assert made <= 100_000


@pytest.mark.parametrize("codec", (GZIP, SNAPPY, LZ4, ZSTD))
def test_a_stream_that_is_cut_short_is_damaged(codec: int) -> None:
    packed = compress(codec, bytes(range(256)) * 2000)
    for end in (len(packed) - 1, len(packed) // 2, 3):
        with pytest.raises(CorruptMessage):
            list(steps(codec, packed[:end]))


@settings(deadline=None, max_examples=60)
@given(codec=st.sampled_from(CODECS), parts=st.lists(st.binary(max_size=60_000), max_size=4))
def test_the_chunks_join_to_the_original(codec: int, parts: list[bytes]) -> None:
    data = b"".join(parts) * 3
    assert b"".join(steps(codec, compress(codec, data))) == data
    assert decompress(codec, compress(codec, data)) == data


def test_a_large_raw_snappy_block_is_yielded_as_a_call() -> None:
    import cramjam

    raw = bytes(cramjam.snappy.compress_raw(bytes(range(256)) * 100 + bytes(5_000_000)))
    assert len(raw) > 128 * 1024
    first = next(unpack(SNAPPY, memoryview(raw)))
    assert callable(first)


def test_a_job_decompresses_a_large_raw_snappy_block_off_the_event_loop() -> None:
    import cramjam

    data = Random(1).randbytes(200_000)
    raw = bytes(cramjam.snappy.compress_raw(data))
    chunks = unpack(SNAPPY, memoryview(raw))
    job = pull(chunks)
    call = next(job)
    assert callable(call)
    with pytest.raises(StopIteration) as ended:
        job.send(call())
    parts = [ended.value.value]
    while (chunk := finish(pull(chunks))) is not None:
        parts.append(chunk)
    assert b"".join(parts) == data
    assert decompress(SNAPPY, raw) == data
    assert memory_needed(SNAPPY, memoryview(raw)) >= len(data)


@pytest.mark.parametrize(
    ("head", "needed"),
    [
        (b"\x28\xb5\x2f\xfd", DECOMPRESSED_SIZE_MAX),  # Too short for the size of its window.
        (b"\x28\xb5\x2f\xfd\x20\x64", 100),  # One segment of 100 bytes.
        (b"\x28\xb5\x2f\xfd\xa0\x64\x00\x00\x00", DECOMPRESSED_SIZE_MAX),  # One segment with a longer size.
        (b"\x28\xb5\x2f\xfd\x00\x09", 1024 * 2 * 9 // 8),
    ],
)
def test_the_memory_of_a_zstd_frame_follows_from_its_header(head: bytes, needed: int) -> None:
    least = memory_needed(GZIP, memoryview(b""))
    assert memory_needed(ZSTD, memoryview(head)) == least + needed


def test_large_windows_are_known_before_decompression() -> None:
    small = compress(ZSTD, bytes(1_000))
    large = compress(ZSTD, bytes(1_000), 22)
    assert memory_needed(ZSTD, memoryview(small)) < 4_000_000
    assert memory_needed(ZSTD, memoryview(large)) > 60_000_000
    assert memory_needed(GZIP, memoryview(compress(GZIP, bytes(10)))) < 4_000_000
