"""Requests built from plain values: nested entities of the wire schemas, with defaults for missing fields."""

from typing import Any

from penstock.wire import codec
from penstock.wire.frame import parse_response_header, request_head
from penstock.wire.schema import shape_of


def entity(api_key: int, version: int, **values: Any) -> Any:
    """Build a request of that version. Structures are dicts, arrays lists of them."""
    return _build(codec.request_class(api_key, version), values)


def _build(layout: type[Any], values: dict[str, Any]) -> Any:
    shape = shape_of(layout)
    given = dict(values)
    built: dict[str, Any] = {}
    for field in (*shape.plain, *shape.tagged):
        if field.name not in given:
            built[field.name] = field.default
            continue
        value = given.pop(field.name)
        if field.entity is not None and value is not None:
            inner = field.entity
            value = tuple(_build(inner, each) for each in value) if field.repeated else _build(inner, value)
        elif field.repeated and value is not None:
            value = tuple(value)
        built[field.name] = value
    assert not given, f"{layout.__name__} has no {', '.join(given)}"
    return layout(**built)


def frame(api_key: int, version: int, correlation_id: int, client_id: str, request: Any) -> bytes:
    body = codec.write_request(api_key, version, request)
    return request_head(api_key, version, correlation_id, client_id, len(body)) + body


def answer(api_key: int, version: int, data: memoryview) -> tuple[int, Any]:
    """Return the correlation id and the body of a response."""
    correlation_id, position = parse_response_header(api_key, version, data)
    return correlation_id, codec.read_response(api_key, version, bytes(data[position:]))
