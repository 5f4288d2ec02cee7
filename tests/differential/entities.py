"""Requests from plain dictionaries, and responses as plain values, by kio's schemas.

One dictionary serves every version of a request: what a version lacks is left out, what the
dictionary lacks takes the schema's default or zero. The codec under test is not used here.
"""

from __future__ import annotations

import datetime
import io
import types
import typing
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import IntEnum
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map
from kio.serial import entity_reader, entity_writer

from tests.differential.batches import summarise

API_NAMES = dict(api_key_map)
API_KEYS = {name: key for key, name in api_key_map.items()}
_EPOCH = datetime.datetime.fromtimestamp(0, tz=datetime.UTC)


def request_frame(api: str, version: int, values: Mapping[str, Any], *, correlation_id: int = 7) -> bytes:
    """Return a complete request, including the length prefix."""
    layout = load_request_schema(API_KEYS[api], version)
    header_layout = layout.__header_schema__
    header = _entity(
        header_layout,
        {
            "request_api_key": API_KEYS[api],
            "request_api_version": version,
            "correlation_id": correlation_id,
            "client_id": "differential",
        },
    )
    buffer = io.BytesIO()
    entity_writer(header_layout)(buffer, header)
    entity_writer(layout)(buffer, _entity(layout, values))
    return framed(buffer.getvalue())


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big", signed=True) + body


def read_response(api: str, version: int, frame: bytes) -> dict[str, Any]:
    """Return a response without its length prefix as nested dictionaries."""
    layout = load_response_schema(API_KEYS[api], version)
    header, used = entity_reader(layout.__header_schema__)(frame, 0)
    body, size = entity_reader(layout)(frame, used)
    answer = plain(body)
    assert isinstance(answer, dict)
    answer["correlation_id"] = header.correlation_id
    left = len(frame) - used - size
    if left:
        answer["bytes_left_over"] = left
    return answer


def plain(value: Any) -> Any:
    """Convert an entity to dictionaries, lists, numbers and text."""
    if is_dataclass(value):
        return {field.name: _plain_field(field.name, getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, IntEnum):
        return f"{int(value)} {value.name}"
    if isinstance(value, datetime.timedelta):
        return round(value / datetime.timedelta(milliseconds=1))
    if isinstance(value, datetime.datetime):
        return round((value - _EPOCH) / datetime.timedelta(milliseconds=1))
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return str(value) if isinstance(value, uuid.UUID) else value


def _plain_field(name: str, value: Any) -> Any:
    if name == "records" and value is not None:
        return summarise(bytes(value))
    return plain(value)


def _entity(layout: type[Any], values: Mapping[str, Any]) -> Any:
    hints = typing.get_type_hints(layout)
    arguments = {}
    for field in fields(layout):
        if field.name in values:
            arguments[field.name] = _value(hints[field.name], values[field.name])
        elif field.default is MISSING and field.default_factory is MISSING:
            arguments[field.name] = _zero(hints[field.name])
    return layout(**arguments)


def _value(hint: Any, given: Any) -> Any:
    if given is None:
        return None
    options = [one for one in typing.get_args(hint) if one is not type(None)]
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return _value(options[0], given)
    if typing.get_origin(hint) is tuple:
        assert isinstance(given, Sequence)
        return tuple(_value(options[0], one) for one in given)
    if is_dataclass(hint):
        assert isinstance(hint, type)
        return _entity(hint, given)
    if isinstance(hint, type) and issubclass(hint, datetime.timedelta):
        return datetime.timedelta(milliseconds=given)
    if isinstance(hint, type) and issubclass(hint, datetime.datetime):
        return _EPOCH + datetime.timedelta(milliseconds=given)
    if hint is uuid.UUID and isinstance(given, str):
        return uuid.UUID(given)
    return given


def _zero(hint: Any) -> Any:
    if type(None) in typing.get_args(hint):
        return None
    if typing.get_origin(hint) is tuple:
        return ()
    if is_dataclass(hint):
        assert isinstance(hint, type)
        return _entity(hint, {})
    if isinstance(hint, type):
        for kind, zero in (
            (bool, False),
            (datetime.timedelta, datetime.timedelta()),
            (int, 0),
            (str, ""),
            (bytes, b""),
        ):
            if issubclass(hint, kind):
                return zero
    raise TypeError(f"no zero for {hint}")
