"""The names of the codecs, apart from the libraries behind them, which the driver never loads."""

from typing import Final

CODECS: Final = {"none": 0, "uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
