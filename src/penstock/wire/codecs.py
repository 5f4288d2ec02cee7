"""The names and numbers of the compression codecs."""

from typing import Final

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4
NAMES: Final = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER: Final = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
XERIAL_HEADER_SIZE: Final = len(XERIAL_HEADER)


class Codec:
    """The codec ids in the lowest three bits of a batch's attributes, as constants."""

    NONE: Final = NONE
    GZIP: Final = GZIP
    SNAPPY: Final = SNAPPY
    LZ4: Final = LZ4
    ZSTD: Final = ZSTD
