"""Decompression runs in steps that are small whatever the stream contains."""

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.errors import CorruptMessage, InvalidRecord
from penstock.wire.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD
from penstock.wire.compression import compress, decompress
from penstock.wire.unpacking import CHUNK_SIZE, memory_needed, unpack

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


def test_large_windows_are_known_before_decompression() -> None:
    small = compress(ZSTD, bytes(1_000))
    large = compress(ZSTD, bytes(1_000), 22)
    assert memory_needed(ZSTD, memoryview(small)) < 4_000_000
    assert memory_needed(ZSTD, memoryview(large)) > 60_000_000
    assert memory_needed(GZIP, memoryview(compress(GZIP, bytes(10)))) < 4_000_000
