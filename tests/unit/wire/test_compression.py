"""Every codec round-trips, stops at its limit and rejects data of other formats."""

import contextlib
import zlib

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import CorruptMessage, InvalidRecord, UnsupportedCompressionType
from penstock.wire.compression import Codec, check_codec_frame, compress, decompress

CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
REAL_CODECS = CODECS[1:]
TEXT = b"the water runs through the penstock to the wheel, " * 40


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.one_of(st.binary(max_size=300), st.binary(max_size=20).map(lambda piece: piece * 9000)))
def test_compressed_data_decompresses_to_the_original(codec: int, data: bytes) -> None:
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_any_kind_of_buffer_is_accepted(codec: int, buffer: type) -> None:
    packed = compress(codec, buffer(TEXT))
    assert decompress(codec, buffer(packed)) == TEXT


@pytest.mark.parametrize(("codec", "level"), [(1, 1), (1, 9), (3, 1), (3, 9), (3, 17), (4, -5), (4, 1), (4, 22)])
def test_levels_that_kafka_allows_are_accepted(codec: int, level: int) -> None:
    assert decompress(codec, compress(codec, TEXT, level)) == TEXT


@pytest.mark.parametrize("codec", CODECS)
def test_output_of_exactly_the_limit_is_allowed_and_one_more_is_not(codec: int) -> None:
    packed = compress(codec, TEXT)
    assert decompress(codec, packed, limit=len(TEXT)) == TEXT
    with pytest.raises(InvalidRecord):
        decompress(codec, packed, limit=len(TEXT) - 1)


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_a_decompression_bomb_is_invalid(codec: int) -> None:
    bomb = compress(codec, bytes(3_000_000))
    with pytest.raises(InvalidRecord, match="more than 100000 bytes"):
        decompress(codec, bomb, limit=100_000)


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_garbage_is_corrupt(codec: int) -> None:
    for garbage in (b"", b"\x01", b"\xff" * 50, b"not compressed at all, not at all", compress(codec, TEXT)[1:]):
        with pytest.raises(CorruptMessage):
            decompress(codec, garbage)


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_a_stream_that_is_cut_short_is_corrupt(codec: int) -> None:
    packed = compress(codec, TEXT)
    # The bare header of framed snappy is a complete, empty stream.
    cuts = [cut for cut in range(len(packed)) if not (codec == Codec.SNAPPY and cut == 16)]
    for cut in cuts:
        with pytest.raises(CorruptMessage):
            decompress(codec, packed[:cut])


@pytest.mark.parametrize("codec", REAL_CODECS)
@given(data=st.data())
def test_damage_raises_no_other_error(codec: int, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, TEXT))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptMessage, InvalidRecord):
        assert len(decompress(codec, packed, limit=100_000)) <= 100_000


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_frames_may_be_concatenated(codec: int) -> None:
    assert decompress(codec, compress(codec, TEXT) * 3) == TEXT * 3


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_thousands_of_empty_frames_are_rejected(codec: int) -> None:
    with pytest.raises(InvalidRecord, match="frames"):
        decompress(codec, compress(codec, b"") * 5000)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_unsupported(codec: int) -> None:
    for call in (compress, decompress, check_codec_frame):
        with pytest.raises(UnsupportedCompressionType):
            call(codec, b"data")


def test_snappy_is_written_framed_and_read_framed_or_raw() -> None:
    assert compress(Codec.SNAPPY, TEXT).startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    assert decompress(Codec.SNAPPY, raw) == TEXT


def test_raw_snappy_that_announces_an_impossible_size_is_corrupt() -> None:
    # Announces 64 MiB in six bytes: nothing of that size may be allocated.
    with pytest.raises(CorruptMessage, match="cannot decompress"):
        decompress(Codec.SNAPPY, b"\x80\x80\x80\x20\x00a")


def test_lz4_is_written_as_kafka_reads_it() -> None:
    packed = compress(Codec.LZ4, TEXT)
    assert packed[:4] == b"\x04\x22\x4d\x18"
    flags = packed[4]
    assert flags >> 6 == 1, "the version"
    assert flags & 0x20, "blocks are independent"
    assert flags & 0x0C == 0, "neither a content size nor a content checksum"


def test_gzip_bytes_do_not_depend_on_the_time() -> None:
    assert compress(Codec.GZIP, TEXT)[4:8] == bytes(4)
    assert zlib.decompress(compress(Codec.GZIP, TEXT), wbits=31) == TEXT


@pytest.mark.parametrize("codec", CODECS)
def test_a_payload_is_recognized_by_its_first_bytes(codec: int) -> None:
    assert check_codec_frame(codec, memoryview(compress(codec, TEXT)))


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_plain_garbage_does_not_pass_for_a_codecs_frame(codec: int) -> None:
    for garbage in (b"", b"\xff" * 40, b"\x03abcdef", b"plain text and not a frame"):
        assert not check_codec_frame(codec, memoryview(garbage))


def test_raw_snappy_passes_for_a_snappy_frame() -> None:
    for data in (b"", b"a", TEXT):
        assert check_codec_frame(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(data)))
