"""The declaration of a route under `/api/c/<cluster>`, and the matching of paths."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote_to_bytes

from starlette.requests import Request
from starlette.responses import Response

from penstock_console.errors import bad_request
from penstock_console.parameters import Parameter

if TYPE_CHECKING:
    from penstock_console.clusters import ClusterAccess
    from penstock_console.console import Console


@dataclass(frozen=True, slots=True)
class Call:
    """A request to an endpoint, validated."""

    access: "ClusterAccess"
    console: "Console"
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Mapping[str, Any] = field(default_factory=dict)
    user: str | None = None
    address: str = ""

    def __getitem__(self, name: str) -> Any:
        """Return a value of the path or of the query."""
        return self.path[name] if name in self.path else self.query[name]


Read = Callable[[Call], Any]
"""Runs in a thread and returns the content of the response."""
Serve = Callable[[Call, Request], Awaitable[Response]]
"""Runs on the event loop and returns the response itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    path: str
    doc: str
    read: Read | None = None
    serve: Serve | None = None
    method: str = "GET"
    parameters: tuple[Parameter, ...] = ()
    contents: bool = False
    """Whether the response contains records."""
    is_slow: bool = False
    """Whether it counts as a read of records."""

    @property
    def segments(self) -> tuple[str, ...]:
        return tuple(self.path.strip("/").split("/"))


class Match(NamedTuple):
    endpoint: Endpoint
    path: dict[str, str]


def match(endpoints: Sequence[Endpoint], method: str, segments: Sequence[str]) -> Match | None:
    for endpoint in endpoints:
        wanted = endpoint.segments
        if endpoint.method != method or len(wanted) != len(segments):
            continue
        pairs = list(zip(wanted, segments, strict=True))
        if all(part.startswith("{") or part == given for part, given in pairs):
            return Match(endpoint, {part[1:-1]: given for part, given in pairs if part.startswith("{")})
    return None


def split_path(raw: str) -> list[str]:
    """Return the decoded segments of a path; a `/` in a name is encoded as %2F."""
    try:
        return [unquote_to_bytes(part).decode("utf-8") for part in raw.strip("/").split("/")]
    except UnicodeDecodeError:
        raise bad_request("The path is not valid UTF-8.", "Encode names in UTF-8.") from None
