"""The table of all endpoints under `/api/c/<cluster>`."""

from typing import Final

from penstock_console.endpoints import Endpoint
from penstock_console.pages import (
    access,
    changes,
    dead_letters,
    groups,
    history,
    nodes,
    overview,
    pipelines,
    queues,
    records,
    settings,
    skew,
    sql,
    topics,
    transactions,
)

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *overview.ENDPOINTS,
    *topics.ENDPOINTS,
    *settings.ENDPOINTS,
    *skew.ENDPOINTS,
    *records.ENDPOINTS,
    *groups.ENDPOINTS,
    *history.ENDPOINTS,
    *queues.ENDPOINTS,
    *dead_letters.ENDPOINTS,
    *pipelines.ENDPOINTS,
    *transactions.ENDPOINTS,
    *nodes.ENDPOINTS,
    *access.ENDPOINTS,
    *sql.ENDPOINTS,
    *changes.ENDPOINTS,
)
