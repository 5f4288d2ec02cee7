"""The OpenAPI description of the API, from the table of endpoints."""

from collections.abc import Sequence
from typing import Any, Final

from penstock import __version__
from penstock_console.endpoints import Endpoint
from penstock_console.parameters import Parameter

_PREFIX: Final = "/api/c/{cluster}/"


def describe(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(_PREFIX + endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Penstock console", "version": __version__},
        "paths": {"/api/session": {"get": _simple("The session of this browser, with its token.")}, **paths},
        "components": {"schemas": {"Error": _ERROR}},
    }


_ERROR: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "hint": {"type": ["string", "null"]},
            },
            "required": ["code", "message"],
        }
    },
    "required": ["error"],
}


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    names = [part[1:-1] for part in ("{cluster}", *endpoint.segments) if part.startswith("{")]
    found: dict[str, Any] = {
        **_simple(endpoint.doc),
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names),
            *map(_parameter, endpoint.parameters),
        ],
    }
    if endpoint.method == "POST":
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}
        token = {"name": "X-Penstock-Token", "in": "header", "required": True, "schema": {"type": "string"}}
        found["parameters"].append(token)
    return found


def _simple(doc: str) -> dict[str, Any]:
    problem = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        "summary": doc,
        "responses": {"200": {"description": "Success."}, "default": {"description": "Error.", "content": problem}},
    }


def _parameter(parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    match parameter.default:
        case bool():
            schema = {"type": "boolean"}
        case int():
            schema = {"type": "integer", "minimum": parameter.least, "maximum": parameter.most}
    if parameter.choices:
        schema["enum"] = list(parameter.choices)
    if parameter.repeated:
        schema = {"type": "array", "items": schema}
    elif parameter.default not in ("", None):
        schema["default"] = parameter.default
    return {"name": parameter.name, "in": "query", "description": parameter.doc, "schema": schema}
