"""The names of the codecs, without importing the libraries, which the driver does not need."""

from typing import Final

CODECS: Final = {"none": 0, "uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
