"""Fields that are the same in many records of a type: they are encoded and decoded once. Pure. Raises Corruption."""

from functools import lru_cache
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

from penstock.model.errors import Corruption
from penstock.wire.fields import Field, Layout, Reader

_VALUES_MAX = 1024


class SharedFields:
    """The last fields of a record. Their values must be hashable."""

    def __init__(self, version: int, *fields: Field) -> None:
        self._version = version
        self._names = tuple(field.name for field in fields)
        self._values_of = attrgetter(*self._names)
        self._layout = Layout(dict, version, *fields)
        self._encode = lru_cache(_VALUES_MAX)(self._encode_values)
        self._decode = lru_cache(_VALUES_MAX)(self._decode_content)

    def encode(self, record: Any) -> bytes:
        return self._encode(self._values_of(record))

    def decode(self, content: bytes, version: int) -> dict[str, Any]:
        """Return the values by name, for reading only."""
        return self._decode(content, version)

    def _encode_values(self, values: tuple[Any, ...]) -> bytes:
        out = bytearray()
        self._layout.write(out, SimpleNamespace(**dict(zip(self._names, values, strict=True))))
        return bytes(out)

    def _decode_content(self, content: bytes, version: int) -> dict[str, Any]:
        if version > self._version:
            raise Corruption(f"version {version} of a metadata record is not supported by this release")
        reader = Reader(content)
        values: dict[str, Any] = self._layout.read(reader, version)
        if reader.position != len(content):
            raise Corruption(f"a metadata record has {len(content) - reader.position} extra bytes")
        return values
