"""Fields that describe a request in log lines; the log formats (cli/log_format.py) show them."""

from typing import TYPE_CHECKING, Final

from penstock.wire.api import APIS

if TYPE_CHECKING:
    from penstock.ports.network import Connection
    from penstock.wire.frame import Header

FIELDS: Final = ("api", "api_version", "client_id", "correlation_id", "connection")


def about(header: "Header", connection: "Connection") -> dict[str, object]:
    """Return the `extra` argument of a log call about a request."""
    api = APIS.get(header.api_key)
    return {
        "api": header.api_key if api is None else api.name,
        "api_version": header.version,
        "client_id": header.client_id,
        "correlation_id": header.correlation_id,
        "connection": f"{connection.peer_host}:{connection.peer_port}",
    }
