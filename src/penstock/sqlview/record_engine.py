"""Queries that read the records of topics, in an in-memory DuckDB over Arrow batches from the live log.

The query's syntax tree limits the partitions, offsets and times (pushdown.py); only those are fetched, through
penstock.arrow. The cluster's tables are available too. Raises QueryError for anything but one SELECT (only SELECTs
have a tree), files and other external sources, unknown topics, and too much memory.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from penstock.actions.cluster_client import ClusterClient
from penstock.actions.connection import Connection
from penstock.actions.masks import find_mask
from penstock.sqlview.errors import QueryError, too_much_memory
from penstock.sqlview.memory import MIB, memory_limit
from penstock.sqlview.pushdown import Node, TopicCall, topic_calls
from penstock.sqlview.result import Cursor, Stream, unique_names
from penstock.sqlview.tables import BY_NAME

try:
    import duckdb
    import pyarrow as pa

    from penstock import arrow
    from penstock_client.errors import PenstockClientError
except ImportError:
    raise QueryError("Reading records with SQL needs DuckDB and Arrow: run pip install 'penstock[sql]'.") from None

Read = Callable[..., Any]

# Most keys and values are text and shown as such; other bytes as DuckDB prints them. The bytes are available too.
VIEW: Final = """
CREATE TEMP VIEW "{name}" AS SELECT {more}topic, partition, "offset", timestamp, timestamp_type,
    coalesce(TRY(decode(key)), key::VARCHAR) AS key, coalesce(TRY(decode(value)), value::VARCHAR) AS value,
    headers, key AS key_bytes, value AS value_bytes
FROM "{name}_records"
"""


@contextmanager
def run(
    sql: str,
    bootstrap: str,
    settings: Mapping[str, str],
    *,
    memory_bytes: int,
    masks: Mapping[str, Sequence[str]] | None = None,
) -> Iterator[Stream]:
    """Run a query. `masks` are the paths of fields to hide, by topic."""
    read = partial(_read_masked, masks or {}, partial(arrow.read, bootstrap=bootstrap, settings=dict(settings)))
    with limited_connection(memory_bytes) as connection:
        yield _prepared(connection, sql, Connection(bootstrap, settings), read)


@contextmanager
def limited_connection(memory_bytes: int) -> Iterator[Any]:
    """Open a database without access to files and with limited memory; its errors are raised as QueryError."""
    connection = duckdb.connect(":memory:")
    # DuckDB stays within its own limit by working in smaller steps, so set that one first.
    connection.execute(f"SET memory_limit = '{max(memory_bytes * 3 // 4 // MIB, 1)}MiB'")
    # After a query has run, the threads and their stacks exist.
    connection.execute("SET enable_external_access = false; SET TimeZone = 'UTC'; SELECT 1")
    try:
        with memory_limit("duckdb", memory_bytes):
            yield connection
    except duckdb.OutOfMemoryException:
        raise too_much_memory(memory_bytes) from None
    except duckdb.Error as error:
        if "MemoryError" in str(error):  # from Python, which reads the records
            raise too_much_memory(memory_bytes) from None
        raise QueryError(f"The query cannot be run: {str(error).strip()}") from None
    finally:
        connection.close()


def _prepared(connection: Any, sql: str, target: Connection, read: Read) -> Stream:
    tree = parse_select(connection, sql)
    with ClusterClient(target) as cluster:
        _fill_tables(connection, tree, cluster)
    _attach_topics(connection, tree, read)
    connection.execute("SET lock_configuration = true")
    return _rows(connection, _text(connection, tree))


def _read_masked(masks: Mapping[str, Sequence[str]], read: Read, topic: str, **options: Any) -> Any:
    """Read a topic, without the hidden fields of its values."""
    records = read(topic, **options)
    mask = find_mask(masks, topic)
    if mask is None:
        return records
    hide = mask.hide

    def masked() -> Iterator[Any]:
        at = records.schema.get_field_index("value")
        for batch in records:
            hidden = pa.array([hide(value.as_py()) for value in batch.column(at)], type=records.schema.field(at).type)
            yield batch.set_column(at, records.schema.field(at), hidden)

    return pa.RecordBatchReader.from_batches(records.schema, masked())


def _rows(connection: Any, sql: str) -> Stream:
    """Defer the query until it is known how its rows are read; otherwise the records would be read twice."""

    def run() -> Cursor:
        cursor = connection.execute(sql)
        return Cursor(unique_names(column[0] for column in cursor.description or ()), cursor.fetchmany)

    def arrow_reader(size: int) -> Any:
        relation = connection.sql(sql)
        # The name before DuckDB 2 comes second.
        return (getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader)(size)

    return Stream(run, arrow_reader)


def parse_select(connection: Any, sql: str) -> Node:
    """Return the syntax tree of one SELECT."""
    tree: Node = json.loads(_one(connection, "SELECT json_serialize_sql(?)", [sql.strip().rstrip(";")]))
    if tree.get("error"):
        message = str(tree.get("error_message", ""))
        if "SELECT" in message:
            raise QueryError("Only one SELECT is allowed: records are read-only.")
        raise QueryError(f"The query cannot be run: {message}")
    if len(tree["statements"]) != 1:
        raise QueryError("Only one SELECT is allowed at a time.")
    return tree


def _text(connection: Any, tree: Node) -> str:
    return str(_one(connection, "SELECT json_deserialize_sql(?::JSON)", [json.dumps(tree)]))


def _one(connection: Any, sql: str, parameters: list[str]) -> Any:
    # Fetch every row: a connection with an unfinished result accepts no other query.
    ((value,),) = connection.execute(sql, parameters).fetchall()
    return value


def _fill_tables(connection: Any, tree: Node, cluster: ClusterClient) -> None:
    used = {name for name in _table_names(tree) if name in BY_NAME}
    for table in (BY_NAME[name] for name in sorted(used)):
        connection.execute(table.declaration())
        rows = list(table.read(cluster))
        if rows:
            marks = ",".join("?" * len(table.columns))
            connection.executemany(f'INSERT INTO "{table.name}" VALUES ({marks})', rows)


def _table_names(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if node.get("type") == "BASE_TABLE":
            yield str(node.get("table_name", "")).lower()
        for child in node.values():
            yield from _table_names(child)
    elif isinstance(node, list):
        for child in node:
            yield from _table_names(child)


def _attach_topics(connection: Any, tree: Node, read: Read) -> None:
    """Replace each topic() call by a table of Arrow batches."""

    def evaluate(node: Node, kind: str) -> int | None:
        shell = parse_select(connection, "SELECT 1")
        shell["statements"][0]["node"]["select_list"] = [node]
        expression = _text(connection, shell).removeprefix("SELECT ").strip().rstrip(";")
        milliseconds = f"epoch_ms(({expression})::TIMESTAMPTZ)"
        whole = f"({expression})::BIGINT"
        try:
            value = _one(connection, f"SELECT {milliseconds if kind == 'TIMESTAMP_MS' else whole}", [])
        except duckdb.Error:
            return None
        return None if value is None else int(value)

    for count, call in enumerate(topic_calls(tree, evaluate)):
        name = f"topic_{count}"
        connection.register(f"{name}_records", _records(call, read))
        connection.execute(VIEW.format(name=name, more=""))
        shell = parse_select(connection, f'SELECT * FROM "{name}"')
        table: Node = shell["statements"][0]["node"]["from_table"]
        requested = call.holder[call.key]
        table |= {name: requested[name] for name in ("sample", "column_name_alias") if name in requested}
        table["alias"] = call.alias or "topic"
        call.holder[call.key] = table


def _records(call: TopicCall, read: Read) -> Any:
    unknown = set(call.options) - {"isolation"}
    if unknown:
        raise QueryError(
            f"Unknown option {', '.join(sorted(unknown))} of topic(): the only one is isolation => 'read_committed'."
        )
    bounds = call.bounds
    try:
        return read(
            call.name,
            partitions=bounds.wants_partition,
            first_offset=bounds.offset.least,
            last_offset=bounds.offset.most,
            first_timestamp=bounds.timestamp.least,
            last_timestamp=bounds.timestamp.most,
            isolation=call.options.get("isolation", "read_uncommitted"),
        )
    except PenstockClientError as error:
        raise QueryError(str(error)) from None
