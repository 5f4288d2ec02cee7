"""JSON of the API. Integers that a browser would round are strings, and no value makes the encoding fail."""

import json
import math
from typing import Any, Final

from starlette.responses import Response

from penstock_console.errors import bad_request

SAFE_INTEGER_MAX: Final = 2**53 - 1


def encode(content: Any) -> bytes:
    text = json.dumps(_exact(content), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # A lone surrogate cannot be encoded, and is no text in any case.
    return text.encode("utf-8", "replace")


def respond(content: Any, status: int = 200) -> Response:
    return Response(encode(content), status, media_type="application/json")


def parse_object(body: bytes) -> dict[str, Any]:
    """Parse the body of a request, which must be a JSON object."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise bad_request("The body is not valid JSON.", "Send a JSON object.") from None
    if not isinstance(found, dict):
        raise bad_request("The body is not a JSON object.", "Send a JSON object.")
    return found


def _exact(value: Any) -> Any:
    match value:
        case bool() | None | str():
            return value
        case int():
            return value if -SAFE_INTEGER_MAX <= value <= SAFE_INTEGER_MAX else str(value)
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {str(name): _exact(each) for name, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_exact(each) for each in value]
    return str(value)
