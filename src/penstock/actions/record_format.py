"""Records as lines of text or JSON. No I/O.

`render_json_line` writes what `parse_json_line` reads. Bytes that are not UTF-8 are written as {"base64": "..."}.
"""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

from penstock.actions.errors import ActionError

Headers = Sequence[tuple[str, bytes | None]]


class LineFormat(StrEnum):
    """The format of a line."""

    TEXT = "text"
    JSON = "json"


class LineRecord(NamedTuple):
    """A record of a line. A record to be produced has no offset yet."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = None
    offset: int | None = None
    topic: str | None = None
    timestamp_type: int | None = None
    """0: the producer's time, 1: the time of the append."""


class TextLayout(NamedTuple):
    """The fields that precede the value in a line of text."""

    keys: bool = False
    headers: bool = False
    timestamps: bool = False
    offsets: bool = False
    key_separator: str = "\t"


def parse_text_line(line: bytes, *, key_separator: bytes | None) -> LineRecord:
    """Parse a line without its line end. With a separator, the text before its first occurrence is the key."""
    if key_separator is None:
        return LineRecord(None, line)
    key, found, value = line.partition(key_separator)
    if not found:
        raise ActionError(
            f"{_shortened(line)} has no key separator {key_separator.decode()!r}. Add a key or use no separator."
        )
    return LineRecord(key, value)


def parse_json_line(line: bytes) -> LineRecord:
    """Parse a JSON object with a value, and optionally key, headers, timestamp and partition."""
    try:
        read = json.loads(line)
    except ValueError as error:
        raise ActionError(f"{_shortened(line)} is not valid JSON: {error}.") from None
    if not isinstance(read, dict) or "value" not in read:
        raise ActionError(f'{_shortened(line)} is not an object with a "value". Use {{"value": "..."}}.')
    headers = read.get("headers") or []
    if not isinstance(headers, list) or not all(
        isinstance(header, list) and len(header) == 2 and isinstance(header[0], str) for header in headers
    ):
        raise ActionError(f'Invalid headers in {_shortened(line)}: expected [["name", "value"], ...].')
    for name in ("timestamp", "partition"):
        if not isinstance(read.get(name), int | None):
            raise ActionError(f"Invalid {name} in {_shortened(line)}: expected an integer.")
    return LineRecord(
        key=_from_json(read.get("key"), line),
        value=_from_json(read["value"], line),
        headers=[(name, _from_json(value, line)) for name, value in headers],
        timestamp_ms=read.get("timestamp"),
        partition=read.get("partition"),
    )


def render_text_line(
    record: LineRecord, layout: TextLayout, shield: Callable[[bytes], bytes] = lambda data: data
) -> bytes:
    """Render the value, preceded by the fields of the layout, separated by tabs. Fields go through `shield`."""
    before: list[bytes] = []
    if layout.timestamps:
        before.append(render_timestamp(record.timestamp_ms).encode())
    if layout.offsets:
        before.append(f"{record.partition}:{record.offset}".encode())
    if layout.headers:
        headers = ",".join(f"{name}={_text(value)}" for name, value in record.headers).encode()
        before.append(shield(headers) or b"-")
    line = b"\t".join([*before, b""]) if before else b""
    if layout.keys:
        line += (b"null" if record.key is None else shield(record.key)) + layout.key_separator.encode()
    return line + (b"null" if record.value is None else shield(record.value)) + b"\n"


def render_json_line(record: LineRecord) -> bytes:
    """Render all fields of a record as one JSON object."""
    fields = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": _to_json(record.key),
        "value": _to_json(record.value),
        "headers": [[name, _to_json(value)] for name, value in record.headers],
    }
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def render_timestamp(timestamp_ms: int | None) -> str:
    """Render a timestamp as ISO 8601 in UTC, or as a number if it is outside the calendar."""
    if timestamp_ms is None:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _to_json(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _from_json(value: Any, line: bytes) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, dict) and isinstance(value.get("base64"), str) and len(value) == 1:
        try:
            return base64.b64decode(value["base64"], validate=True)
        except binascii.Error:
            raise ActionError(f"Invalid base64 in {_shortened(line)}.") from None
    # Any other JSON is a value as it stands, so that objects need no quoting.
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _text(value: bytes | None) -> str:
    return "null" if value is None else value.decode("utf-8", "backslashreplace")


def _shortened(line: bytes) -> str:
    text = line.decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= 60 else text[:57] + "...")
