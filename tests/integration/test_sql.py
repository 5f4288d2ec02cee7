"""Tests of SQL queries on the cluster and its records, against a live broker."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.actions.connection import Connection
from penstock.actions.quotas import remove_quotas, set_quotas
from penstock.sqlview import isolated, query, stream
from penstock.sqlview.errors import QueryError
from penstock.testing import Broker

FIRST_MS = 1_700_000_000_000
COUNT = 300


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        topic = NewTopic("orders", 3, 1, config={"retention.ms": "-1"})
        admin.create_topics([topic])["orders"].result(timeout=60)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(COUNT):
            producer.produce(
                "orders",
                key=str(number % 7),
                value=json.dumps({"id": number, "amount": number % 10}),
                partition=number % 3,
                timestamp=FIRST_MS + number,
            )
        producer.produce("orders", value=b"\xff\x00", partition=0, timestamp=FIRST_MS + COUNT)
        assert producer.flush(60) == 0
        consumer = Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": "billing", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["orders"])
        seen = 0
        while seen < COUNT:
            seen += len(consumer.consume(100, timeout=1))
        consumer.commit(asynchronous=False)
        yield broker.bootstrap
        consumer.close()


def test_the_three_tables_of_the_design_exist(bootstrap: str) -> None:
    (topic,) = query("SELECT * FROM Topic WHERE name = 'orders'", bootstrap=bootstrap).dicts()
    assert list(topic) == ["id", "name", "partition_count", "replication_factor", "retention_ms"]
    assert (topic["partition_count"], topic["replication_factor"], topic["retention_ms"]) == (3, 1, -1)
    (group,) = query("SELECT * FROM ConsumerGroup", bootstrap=bootstrap).dicts()
    assert list(group) == ["id", "group_id", "protocol"]
    assert (group["group_id"], group["protocol"]) == ("billing", "range")
    assigned = query("SELECT * FROM PartitionAssignment ORDER BY partition", bootstrap=bootstrap).dicts()
    assert list(assigned[0]) == ["group_id", "topic", "partition", "consumer_id", "offset"]
    assert [(row["topic"], row["partition"]) for row in assigned] == [("orders", index) for index in range(3)]
    assert all(row["consumer_id"].startswith("rdkafka") for row in assigned)
    assert sum(row["offset"] for row in assigned) >= COUNT


def test_tables_can_be_joined(bootstrap: str) -> None:
    sql = "SELECT t.name, count(*), sum(p.latest) FROM Topic t JOIN Partition p ON p.topic = t.name GROUP BY 1"
    assert ("orders", 3, COUNT + 1) in query(sql, bootstrap=bootstrap).rows


@pytest.mark.parametrize(
    ("table", "least"),
    [("Replica", 3), ("Broker", 1), ("Config", 200), ("GroupState", 1), ("Member", 1), ("Lag", 3)],
)
def test_every_other_table_has_its_rows(bootstrap: str, table: str, least: int) -> None:
    assert len(query(f"SELECT * FROM {table}", bootstrap=bootstrap).rows) >= least


@pytest.mark.parametrize("table", ["ProducerTransaction", "Producer", "Quota", "ShareGroup", "SharePartition"])
def test_tables_can_be_empty(bootstrap: str, table: str) -> None:
    assert query(f"SELECT count(*) FROM {table}", bootstrap=bootstrap).rows == [(0,)]


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("DELETE FROM Topic", "Only SELECT"),
        ("PRAGMA journal_mode = WAL", "Only SELECT"),
        ("ATTACH '/tmp/other.db' AS other", "Only SELECT"),
        ("SELECT * FROM Topik", "Did you mean 'Topic'?"),
        ("SELECT nothing FROM Topic", "nothing"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("-- nothing", "The query is empty"),
    ],
)
def test_bad_queries_say_what_to_do(bootstrap: str, sql: str, hint: str) -> None:
    with pytest.raises(QueryError, match=hint):
        query(sql, bootstrap=bootstrap)


def test_a_query_that_takes_too_long_is_stopped(bootstrap: str) -> None:
    # Its process is killed: the one that ran other queries exits first, with all that it measured for the coverage.
    isolated.close_idle()
    with pytest.raises(QueryError, match=r"more than 0\.2 s"):
        query(
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n",
            bootstrap=bootstrap,
            timeout_s=0.2,
        )


def test_an_open_transaction_and_its_producer_are_rows(penstock_broker_shared: Broker) -> None:
    bootstrap = penstock_broker_shared.bootstrap
    topic = NewTopic("sql-transactions", 1, 1)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([topic])["sql-transactions"].result(timeout=60)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "sql-transaction"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("sql-transactions", b"x")
    assert producer.flush(60) == 0
    (row,) = query(
        "SELECT * FROM ProducerTransaction WHERE transactional_id = 'sql-transaction'", bootstrap=bootstrap
    ).dicts()
    assert (row["state"], row["partitions"], row["coordinator"]) == ("Ongoing", "sql-transactions-0", 1)
    assert row["started_ms"] > 0
    (found,) = query("SELECT * FROM Producer WHERE topic = 'sql-transactions'", bootstrap=bootstrap).dicts()
    assert (found["producer_id"], found["partition"], found["last_sequence"]) == (row["producer_id"], 0, 0)
    assert found["open_since_offset"] == 0
    producer.abort_transaction(60)


def test_quotas_are_rows(penstock_broker_shared: Broker) -> None:
    bootstrap = penstock_broker_shared.bootstrap
    set_quotas(Connection(bootstrap), {"user": "sql", "client-id": None}, {"producer_byte_rate": 1024.0})
    rows = query("SELECT client_id, ip, name, value FROM Quota WHERE user = 'sql'", bootstrap=bootstrap).rows
    assert rows == [("<default>", None, "producer_byte_rate", 1024.0)]
    remove_quotas(Connection(bootstrap), {"user": "sql", "client-id": None}, [])


def test_records_are_rows_and_json_can_be_addressed(bootstrap: str) -> None:
    sql = "SELECT sum((value->>'$.amount')::INT) FROM topic('orders') WHERE json_valid(value)"
    assert query(sql, bootstrap=bootstrap).rows == [(sum(number % 10 for number in range(COUNT)),)]


def test_bytes_that_are_not_text_are_shown_and_kept(bootstrap: str) -> None:
    sql = "SELECT value, value_bytes FROM topic('orders') WHERE key IS NULL"
    assert query(sql, bootstrap=bootstrap).rows == [("\\xFF\\x00", b"\xff\x00")]


def test_offsets_times_and_partitions_choose_the_same_rows_as_a_full_scan_would(bootstrap: str) -> None:
    where = f'timestamp >= make_timestamptz({FIRST_MS + 30}000) AND partition IN (1, 2) AND "offset" < 50'
    sql = f"SELECT count(*), min((value->>'$.id')::INT) FROM topic('orders') WHERE {where}"
    wanted = [number for number in range(30, COUNT) if number % 3 in (1, 2) and number // 3 < 50]
    assert query(sql, bootstrap=bootstrap).rows == [(len(wanted), min(wanted))]


@pytest.mark.parametrize("since", ["1960-01-01", "1969-12-31 23:59:59.999"])
def test_all_records_are_newer_than_a_time_before_1970(bootstrap: str, since: str) -> None:
    sql = f"SELECT count(*) FROM topic('orders') WHERE timestamp >= '{since}'"
    assert query(sql, bootstrap=bootstrap).rows == [(COUNT + 1,)]


def test_a_sample_is_taken_before_the_condition(bootstrap: str) -> None:
    sql = 'SELECT count(*), min("offset") FROM topic(\'orders\') TABLESAMPLE 7 ROWS WHERE "offset" >= 0'
    ((count, _),) = query(sql, bootstrap=bootstrap).rows
    assert count == 7


def test_columns_can_be_renamed(bootstrap: str) -> None:
    sql = 'SELECT count(*) FROM topic(\'orders\') AS r(t, "offset", partition) WHERE "offset" = 2 AND partition < 10'
    assert query(sql, bootstrap=bootstrap).rows == [(10,)]


@pytest.mark.parametrize("table", ["Partition", "topic('orders')"])
def test_columns_of_one_name_are_kept_apart(bootstrap: str, table: str) -> None:
    sql = (
        f"SELECT a.partition, b.partition FROM {table} a JOIN {table} b ON a.partition = 0 AND b.partition = 2 LIMIT 1"
    )
    assert query(sql, bootstrap=bootstrap).dicts() == [{"partition": 0, "partition_1": 2}]


def test_records_join_with_the_tables_of_the_cluster(bootstrap: str) -> None:
    sql = "SELECT t.partition_count, count(*) FROM topic('orders') r JOIN Topic t ON t.name = r.topic GROUP BY 1"
    assert query(sql, bootstrap=bootstrap).rows == [(3, COUNT + 1)]


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("SELECT * FROM topic('nowhere')", "does not exist"),
        ("SELECT * FROM topic('orders'), read_csv('/etc/passwd')", "disabled"),
        ("COPY (SELECT * FROM topic('orders')) TO '/tmp/orders.csv'", "Only one SELECT"),
        ("SELECT * FROM topic('orders', flavour => 'sweet')", "Unknown option flavour"),
    ],
)
def test_bad_queries_for_records_say_what_to_do(bootstrap: str, sql: str, hint: str) -> None:
    with pytest.raises(QueryError, match=hint):
        query(sql, bootstrap=bootstrap)


def run(bootstrap: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "penstock.cli.main", *arguments, "--bootstrap", bootstrap]
    return subprocess.run(command, capture_output=True, timeout=60, check=False)


def test_the_command_prints_tables_csv_json_and_arrow(bootstrap: str) -> None:
    import pyarrow.ipc

    sql = "SELECT name, partition_count FROM Topic WHERE name = 'orders'"
    assert run(bootstrap, "sql", sql, "--format", "csv").stdout == b"name,partition_count\norders,3\n"
    assert json.loads(run(bootstrap, "sql", sql, "--format", "json").stdout) == [
        {"name": "orders", "partition_count": 3}
    ]
    table = pyarrow.ipc.open_stream(run(bootstrap, "sql", sql, "--format", "arrow").stdout).read_all()
    assert table.to_pylist() == [{"name": "orders", "partition_count": 3}]
    refused = run(bootstrap, "sql", "DROP TABLE Topic")
    assert (refused.returncode, b"Only SELECT" in refused.stderr) == (1, True)


def test_skew_names_the_hottest_partition_and_key(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("clicks", 4, 1)])["clicks"].result(timeout=60)
    for number in range(2000):
        producer.produce("clicks", key="celebrity" if number % 2 else str(number))
    assert producer.flush(60) == 0
    out = run(bootstrap, "topic", "skew", "clicks").stdout.decode()
    (hottest,) = (line for line in out.splitlines() if line.startswith("'celebrity'"))
    assert "50.0%" in hottest
    assert "Salt it" in out


def test_the_same_records_come_as_arrow_batches(bootstrap: str) -> None:
    from penstock import arrow

    records = arrow.read("orders", bootstrap=bootstrap, partitions=[1], first_offset=10, last_offset=19)
    assert records.row_count_max == 10
    table = records.read_all()
    assert table.column("offset").to_pylist() == list(range(10, 20))
    assert json.loads(table.column("value")[0].as_py())["id"] == 31
    late = arrow.read("orders", bootstrap=bootstrap, first_timestamp=FIRST_MS + 290, columns=["key"])
    assert (late.read_all().num_rows, late.schema.names) == (COUNT + 1 - 290, ["key"])


@pytest.mark.parametrize("format", ["arrow", *(pytest.param(each, marks=pytest.mark.slow) for each in ("csv", "json"))])
def test_more_rows_than_memory_are_streamed(bootstrap: str, format: str) -> None:
    """Hundreds of millions of rows: the first ones arrive immediately, and memory stays constant."""
    sql = "SELECT r.value, r.timestamp, n FROM topic('orders') r, range(1000000) t(n)"
    command = [sys.executable, "-m", "penstock.cli.main", "sql", sql, "--format", format, "--bootstrap", bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        for _ in range(10):
            assert len(process.stdout.read(1_000_000)) == 1_000_000
        status = Path(f"/proc/{process.pid}/status").read_text()
        process.kill()
    (peak_kb,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
    assert int(peak_kb) < 600_000


def test_a_table_shows_the_first_rows_and_says_so(bootstrap: str) -> None:
    shown = run(bootstrap, "sql", "SELECT n FROM topic('orders') r, range(100) t(n)")
    assert len(shown.stdout.splitlines()) == 1 + 10_000
    assert b"only the first 10,000 rows" in shown.stderr
    short = run(bootstrap, "sql", "SELECT repeat(value, 1000) AS v FROM topic('orders') LIMIT 1")
    assert len(short.stdout) < 20_000


def test_records_of_every_kind_can_be_written_as_json_and_csv(bootstrap: str) -> None:
    sql = "SELECT timestamp, value_bytes, headers FROM topic('orders') WHERE key IS NULL"
    when = "2023-11-14T22:13:20.300000+00:00"
    (row,) = json.loads(run(bootstrap, "sql", sql, "--format", "json").stdout)
    assert row == {"timestamp": when, "value_bytes": "\\xFF\\x00", "headers": row["headers"]}
    lines = run(bootstrap, "sql", sql, "--format", "csv").stdout.decode().splitlines()
    assert lines[1].startswith(f"{when},\\xFF\\x00")


def test_rows_can_be_read_one_by_one(bootstrap: str) -> None:
    with stream("SELECT n FROM topic('orders') r, range(1000000000) t(n)", bootstrap=bootstrap) as rows:
        assert rows.columns == ["n"]
        assert len(list(islice(rows, 5000))) == 5000
    with stream("SELECT name FROM Topic WHERE name = 'orders'", bootstrap=bootstrap) as rows:
        assert list(rows) == [("orders",)]


def test_a_stream_is_stopped_at_its_timeout(bootstrap: str) -> None:
    sql = "SELECT n FROM topic('orders') r, range(1000000000) t(n)"
    with pytest.raises(QueryError, match="more than 1 s"), stream(sql, bootstrap=bootstrap, timeout_s=1) as rows:
        for _ in rows:
            pass
