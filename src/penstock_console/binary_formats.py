"""Binary values as text: Protobuf without its schema, Avro files, frames of a schema registry, hex. No I/O."""

import io
import json
import struct
from typing import Any, Final

_REGISTRY_MAGIC: Final = 0
_AVRO_MAGIC: Final = b"Obj\x01"
_AVRO_SIZE_MAX: Final = 1024 * 1024
_DEPTH_MAX: Final = 8
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def hex_dump(data: bytes) -> str:
    """Return lines of an offset, 16 bytes in hex, and their printable characters."""
    lines = []
    for at in range(0, len(data), 16):
        part = data[at : at + 16]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:08x}  {part.hex(' '):<47}  {letters}")
    return "\n".join(lines)


def describe_registry_frame(data: bytes) -> str | None:
    """Describe a value that begins with a zero byte and the id of a schema; None if it does not."""
    if len(data) < 6 or data[0] != _REGISTRY_MAGIC:
        return None
    (schema_id,) = struct.unpack_from(">I", data, 1)
    # Other binary formats begin with a zero byte, too; ids of registries are small numbers.
    if not 0 < schema_id < 10_000_000:
        return None
    return f"schema {schema_id}, {len(data) - 5} bytes: {data[5:105].hex(' ')}"


def render_avro_file(data: bytes) -> str | None:
    """Render the records of an Avro object container file, which has its schema in it; None if it is not one."""
    if not data.startswith(_AVRO_MAGIC) or len(data) > _AVRO_SIZE_MAX:
        return None
    try:
        import fastavro

        found = list(fastavro.reader(io.BytesIO(data)))
        return json.dumps(found, indent=2, default=_text, ensure_ascii=False)
    except Exception:
        # The library is optional, and raises whatever a damaged file makes it run into.
        return None


def render_protobuf(data: bytes) -> str | None:
    """Render a Protobuf message by field numbers, as JSON; None if the bytes are not one."""
    found = _message(data, 0)
    return None if not found else json.dumps(found, indent=2, ensure_ascii=False)


def _message(data: bytes, depth: int) -> dict[str, Any] | None:
    fields: dict[str, Any] = {}
    at = 0
    try:
        while at < len(data):
            tag, at = _varint(data, at)
            number, kind = tag >> 3, tag & 7
            if not 0 < number < 20_000:
                return None
            value, at = _value(data, at, kind, depth)
            name = str(number)
            if name in fields:
                present = fields[name]
                fields[name] = [*present, value] if isinstance(present, list) else [present, value]
            else:
                fields[name] = value
    except (IndexError, struct.error, ValueError):
        return None
    return fields


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind == _VARINT:
        return _varint(data, at)
    if kind == _FIXED64:
        return struct.unpack_from("<q", data, at)[0], at + 8
    if kind == _FIXED32:
        return struct.unpack_from("<i", data, at)[0], at + 4
    if kind != _BYTES:
        raise ValueError("groups are not used any more")
    size, at = _varint(data, at)
    content = data[at : at + size]
    if len(content) < size:
        raise IndexError
    return _content(content, depth), at + size


def _content(content: bytes, depth: int) -> Any:
    """Return text if it is printable, else a message if it is one, else hex."""
    try:
        text = content.decode()
        if text.isprintable():
            return text
    except UnicodeDecodeError:
        pass
    nested = _message(content, depth + 1) if content and depth < _DEPTH_MAX else None
    return nested if nested is not None else content.hex(" ")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("too long")


def _text(value: Any) -> str:
    return value.hex(" ") if isinstance(value, bytes) else str(value)
