"""Records as rows of a page: a few characters of each field, its format, and the fields of JSON as cells. No I/O."""

from typing import Any, Final

from penstock.actions import json_text
from penstock.actions.record_format import LineRecord
from penstock_console.binary_formats import describe_registry_frame, hex_dump, render_avro_file, render_protobuf

ROW_TEXT_MAX: Final = 200
RECORD_TEXT_MAX: Final = 64 * 1024
INDENTED_MAX: Final = 4 * RECORD_TEXT_MAX
FIELDS_MAX: Final = 50
HEADERS_MAX: Final = 50
PREFIX_SIZE: Final = 64 * 1024
"""As much of a value is examined to find its format."""


def record_row(record: LineRecord, *, with_cells: bool = False, text_max: int = ROW_TEXT_MAX) -> dict[str, Any]:
    row: dict[str, Any] = {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "size": _size(record),
        "key": field_view(record.key, text_max),
        "value": field_view(record.value, text_max),
        "headers": [
            {"name": name[:text_max], "value": field_view(value, text_max)}
            for name, value in record.headers[:HEADERS_MAX]
        ],
    }
    if with_cells:
        row["cells"] = cells(record.value)
    return row


def field_view(data: bytes | None, text_max: int) -> dict[str, Any]:
    """Return the beginning of a key, value or header as text, and its format."""
    if data is None:
        return {"text": "null", "format": "null", "size": 0, "cut": False}
    format, text = describe(data, text_max)
    return {"text": text[:text_max], "format": format, "size": len(data), "cut": len(text) > text_max}


def describe(data: bytes, text_max: int) -> tuple[str, str]:
    """Return the format of bytes, and at least `text_max` + 1 characters of their text, if there are as many."""
    if not data:
        return "empty", ""
    prefix = data[:PREFIX_SIZE]
    text = as_text(prefix, is_cut=len(data) > len(prefix))
    if text is not None:
        if len(data) > len(prefix):
            return ("json" if text.lstrip()[:1] in ("{", "[") else "text"), text + "…"
        return ("json" if json_text.is_document(text) else "text"), text
    if (found := describe_registry_frame(data)) is not None:
        return "registry", found
    if (found := render_avro_file(data)) is not None:
        return "avro", found
    if (found := render_protobuf(prefix) if len(data) <= len(prefix) else None) is not None:
        return "protobuf", found
    return "hex", data[: text_max + 1].hex(" ")


def as_text(data: bytes, *, is_cut: bool) -> str | None:
    """Decode UTF-8; None if the bytes are not text. The last character may be incomplete if the bytes were cut."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        if not is_cut or error.start < len(data) - 3:
            return None
        text = data[: error.start].decode()
    # Binary formats are often valid UTF-8 by chance, but full of control characters.
    controls = sum(char < " " and char not in "\t\n\r" for char in text[:1000])
    return text if controls * 10 <= min(len(text), 1000) else None


def cells(value: bytes | None) -> dict[str, str]:
    """Return the fields of a JSON object as short texts."""
    text = as_text(value, is_cut=False) if value else None
    found = json_text.fields(text) if text is not None else None
    return {name[:ROW_TEXT_MAX]: each[:ROW_TEXT_MAX] for name, each in list((found or {}).items())[:FIELDS_MAX]}


def all_formats(data: bytes | None) -> dict[str, str]:
    """Return a value in every format in which it can be displayed."""
    if data is None:
        return {}
    found = {}
    prefix = data[:RECORD_TEXT_MAX]
    text = as_text(prefix, is_cut=len(data) > len(prefix))
    if text is not None:
        found["text"] = text
        if len(data) > len(prefix):
            if text.lstrip()[:1] in ("{", "["):
                found["json"] = json_text.indent(text)[:INDENTED_MAX]
        elif json_text.is_document(text):
            found["json"] = json_text.indent(text)[:INDENTED_MAX]
    for name, rendered in (
        ("registry", describe_registry_frame(data)),
        ("avro", render_avro_file(data)),
        ("protobuf", render_protobuf(data) if text is None and len(data) <= len(prefix) else None),
    ):
        if rendered is not None:
            found[name] = rendered[:RECORD_TEXT_MAX]
    found["hex"] = hex_dump(data[: RECORD_TEXT_MAX // 4])
    return found


def _size(record: LineRecord) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers
