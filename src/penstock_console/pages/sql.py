"""SQL over the cluster's tables and the records of topics, in child processes that can be killed."""

import asyncio
import shlex
import threading
import time
from datetime import date, datetime
from decimal import Decimal
from itertools import islice
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from penstock.sqlview import isolated
from penstock.sqlview.choice import reads_records
from penstock.sqlview.errors import QueryError
from penstock.sqlview.tables import TABLES
from penstock_console.endpoints import Call, Endpoint
from penstock_console.errors import ApiError, bad_request
from penstock_console.json_content import respond
from penstock_console.limits import READ_WAIT_S
from penstock_console.parameters import Arguments
from penstock_console.scan import MEMORY_BYTES, elapsed_ms

QUERY_S: Final = 30.0
ROWS_MAX: Final = 10_000
CELL_MAX: Final = 4_000
SQL_MAX: Final = 100_000
RESULT_SIZE_MAX: Final = 32 * 1024 * 1024
DISCONNECT_POLL_S: Final = 0.25
RECORD_COLUMNS: Final = {
    "topic": "TEXT",
    "partition": "INTEGER",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestamp_type": "INTEGER",
    "key": "TEXT",
    "value": "TEXT",
    "headers": "STRUCT(key, value)[]",
    "key_bytes": "BLOB",
    "value_bytes": "BLOB",
}
EXAMPLES: Final = (
    "SELECT name, partition_count, replication_factor FROM Topic ORDER BY name",
    "SELECT group_id, topic, sum(lag) AS lag FROM Lag GROUP BY ALL ORDER BY lag DESC",
    "SELECT value->>'$.customer' AS customer, count(*) FROM topic('orders') GROUP BY 1 ORDER BY 2 DESC",
    "SELECT * FROM topic('orders') WHERE timestamp > now() - INTERVAL 5 MINUTE LIMIT 100",
)


class Query:
    """A query that the event loop can stop while a thread runs it."""

    def __init__(self, call: Call, sql: str, count: int) -> None:
        self._call = call
        self._sql = sql
        self._count = count
        self._lock = threading.Lock()
        self._kill: Any = None
        self._is_stopped = False

    def run(self) -> dict[str, Any]:
        began = time.monotonic()
        access = self._call.access
        with isolated.run(
            self._sql,
            bootstrap=access.connection.bootstrap,
            settings=access.connection.security,
            timeout_s=QUERY_S,
            memory_bytes=MEMORY_BYTES,
            masks={topic: list(paths) for topic, paths in access.masks.items()},
            began=self._began,
            wait_s=READ_WAIT_S,
        ) as rows:
            columns = list(rows.columns)
            found: list[list[Any]] = []
            size = 0
            for row in islice(rows, self._count + 1):
                found.append([cell(value) for value in row])
                size += sum(len(each) for each in found[-1] if isinstance(each, str))
                if size > RESULT_SIZE_MAX:
                    break
        words = ["penstock", "sql", self._sql, "--bootstrap", access.connection.bootstrap]
        return {
            "columns": columns,
            "rows": found[: self._count],
            "more": len(found) > self._count or size > RESULT_SIZE_MAX,
            "elapsed_ms": elapsed_ms(began),
            "command": shlex.join(words),
        }

    def stop(self) -> None:
        with self._lock:
            self._is_stopped = True
            if self._kill is not None:
                self._kill()

    def _began(self, kill: Any) -> None:
        with self._lock:
            self._kill = kill
            if self._is_stopped:
                kill()
                raise QueryError("The query was stopped.")


async def run_sql(call: Call, request: Request) -> Response:
    arguments = Arguments(call.body, ("sql", "count"))
    sql = arguments.text("sql")
    if len(sql) > SQL_MAX:
        raise bad_request(f"The query is longer than {SQL_MAX} characters.")
    if "\0" in sql:
        raise bad_request("The query contains a NUL character.")
    if reads_records(sql) and not call.access.policy.contents:
        raise ApiError(403, "CONTENTS_HIDDEN", "The contents of records are hidden.", "Query the cluster's tables.")
    query = Query(call, sql, arguments.optional_integer("count", least=1, most=ROWS_MAX) or 1000)
    async with call.console.limits.query():
        running = asyncio.ensure_future(call.console.run(lambda: respond(query.run())))
        while not running.done():
            await asyncio.wait([running], timeout=DISCONNECT_POLL_S)
            if await request.is_disconnected():
                query.stop()
                break
        return await running


def cell(value: Any) -> Any:
    """Return a value of a result as JSON, with a bounded size."""
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            return _short(value)
        case bytes() | bytearray() | memoryview():
            return _short("\\x" + bytes(value[: CELL_MAX // 2]).hex())
        case datetime() | date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case list() | tuple() | dict():
            return _short(str(value))
    return _short(str(value))


def _short(text: str) -> str:
    return text if len(text) <= CELL_MAX else text[:CELL_MAX] + "…"


def show_tables(call: Call) -> dict[str, Any]:
    # The page asks for the tables when it is opened, and a query will follow.
    isolated.prepare()
    tables = [{"table": each.name, "columns": each.columns, "about": each.doc} for each in TABLES]
    records = {"table": "topic('NAME')", "columns": RECORD_COLUMNS, "about": "The records of a topic."}
    return {"tables": [*tables, records], "examples": EXAMPLES}


ENDPOINTS = (
    Endpoint(path="sql", doc="Run a SELECT.", serve=run_sql, method="POST"),
    Endpoint(path="sql/tables", doc="The tables, and example queries.", read=show_tables),
)
