"""Tests of queries that exceed their time or memory: they end and leave nothing behind."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.sqlview import isolated, query, stream
from penstock.sqlview.errors import QueryError, TooManyQueries
from penstock.testing import Broker
from tests.support.eventually import eventually

MIB = 1024 * 1024
RECORD: tuple[Any, ...] = ("t", 0, 0, 0, 0, None, b"x", [])
# A function call that takes hours, needs little memory, and ignores interrupts.
HOURS = "levenshtein(repeat('x', 2000000), repeat('y', 2000000))"
ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t)"


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(timeout=60)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("orders", value=b"x")
        assert producer.flush(60) == 0
        yield broker.bootstrap


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    yield
    isolated.close_idle()
    assert children_of(os.getpid()) == []


def children_of(pid: int) -> list[int]:
    """Return the processes that run queries for this one."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        # Threads and processes may end meanwhile.
        with suppress(FileNotFoundError, ProcessLookupError):
            children = (task / "children").read_text().split()
            found += [
                int(child) for child in children if b"sqlview.child" in Path(f"/proc/{child}/cmdline").read_bytes()
            ]
    return found


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT length(repeat(value, 2000000000)) FROM topic('orders')",
        pytest.param("SELECT repeat(value, 2000000000) FROM topic('orders')", marks=pytest.mark.slow),
        pytest.param("SELECT list(n) FROM topic('orders'), range(300000000) t(n)", marks=pytest.mark.slow),
        "SELECT length(hex(zeroblob(400000000)))",
    ],
)
def test_a_query_that_needs_too_much_memory_says_so_and_the_next_one_runs(bootstrap: str, sql: str) -> None:
    with pytest.raises(QueryError, match=r"needs more than 128 MiB of memory: .* increase --memory"):
        query(sql, bootstrap=bootstrap, memory_bytes=128 * MIB)
    assert query("SELECT count(*) FROM topic('orders')", bootstrap=bootstrap, memory_bytes=128 * MIB).rows == [(1,)]
    (child,) = children_of(os.getpid())
    status = Path(f"/proc/{child}/status").read_text()
    (peak_kb,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    assert peak_kb * 1024 < (200 + 128 + 64) * MIB


def test_the_memory_limit_applies_to_each_query(bootstrap: str) -> None:
    sql = "SELECT length(repeat(value, 200000000)) FROM topic('orders')"
    for _ in range(2):
        with pytest.raises(QueryError, match="128 MiB"):
            query(sql, bootstrap=bootstrap, memory_bytes=128 * MIB)
        assert query(sql, bootstrap=bootstrap, memory_bytes=1024 * MIB).rows == [(200_000_000,)]


def test_the_next_query_uses_the_same_process(bootstrap: str) -> None:
    used = set()
    for sql in ("SELECT 1", "SELECT 1 FROM topic('orders')", "SELEC 1", "SELECT 1 FROM topic('none')") * 2:
        try:
            assert query(sql, bootstrap=bootstrap).rows == [(1,)]
        except QueryError:
            assert "'orders'" not in sql
        used.update(children_of(os.getpid()))
    assert len(used) == 1


def test_a_process_of_queries_does_not_load_pandas(bootstrap: str) -> None:
    assert query("SELECT value FROM topic('orders')", bootstrap=bootstrap).rows == [("x",)]
    (child,) = children_of(os.getpid())
    mapped = Path(f"/proc/{child}/maps").read_text()
    assert "/pyarrow/" in mapped and "/pandas/" not in mapped


def test_a_query_that_ignores_interrupts_is_killed_at_the_deadline(bootstrap: str) -> None:
    with pytest.raises(QueryError, match=r"ran for more than 1 s: .* increase --timeout"):
        query(f"SELECT {HOURS} FROM topic('orders')", bootstrap=bootstrap, timeout_s=1)
    assert children_of(os.getpid()) == []


def test_a_query_is_killed_at_the_deadline_even_if_its_rows_are_not_read(bootstrap: str) -> None:
    sql = "SELECT n FROM topic('orders') r, range(1000000000) t(n)"
    with stream(sql, bootstrap=bootstrap, timeout_s=5) as rows:
        taken = iter(rows)
        next(taken)
        (child,) = children_of(os.getpid())
        eventually(lambda: is_gone(child), seconds_max=60)
        with pytest.raises(QueryError, match="more than 5 s"):
            sum(1 for _ in taken)


def test_a_query_whose_rows_are_not_read_to_the_end_is_stopped(bootstrap: str) -> None:
    with stream("SELECT n FROM topic('orders') r, range(1000000000) t(n)", bootstrap=bootstrap) as rows:
        next(iter(rows))
        (child,) = children_of(os.getpid())
    assert is_gone(child)
    with stream(f"SELECT {HOURS} FROM topic('orders')", bootstrap=bootstrap):
        (child,) = children_of(os.getpid())
    assert is_gone(child)


def test_arrow_batches_end_with_the_error_of_the_query(bootstrap: str) -> None:
    sql = "SELECT repeat(r.value, n) FROM topic('orders') r, (VALUES (1), (2000000000)) t(n)"
    with stream(sql, bootstrap=bootstrap, memory_bytes=128 * MIB) as rows, pytest.raises(QueryError, match="128 MiB"):
        rows.arrow().read_all()


def test_a_process_that_dies_is_reported() -> None:
    with pytest.raises(QueryError, match="ended with signal 15"), stream("SELECT 1", bootstrap="nowhere:1") as rows:
        (child,) = children_of(os.getpid())
        os.kill(child, signal.SIGTERM)
        eventually(lambda: is_gone(child), seconds_max=60)
        _ = rows.columns


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT {HOURS} FROM topic('orders')",
        pytest.param(f"{ENDLESS} SELECT count(*) FROM t", marks=pytest.mark.slow),
        pytest.param(f"{ENDLESS} SELECT count(*) FROM t, topic('orders')", marks=pytest.mark.slow),
    ],
)
def test_a_command_that_is_interrupted_ends_with_its_query(bootstrap: str, sql: str, ending: signal.Signals) -> None:
    command = [sys.executable, "-m", "penstock.cli.main", "sql", sql, "--bootstrap", bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        eventually(lambda: bool(children_of(process.pid)), seconds_max=60)
        (child,) = children_of(process.pid)
        eventually(lambda: cpu_seconds(child) > 2, seconds_max=60)
        process.send_signal(ending)
        out, error = process.communicate(timeout=60)
    assert (process.returncode, out, error) == (-ending, "", "")
    eventually(lambda: is_gone(child), seconds_max=60)


def test_the_command_has_options_for_the_limits(bootstrap: str) -> None:
    command = [sys.executable, "-m", "penstock.cli.main", "sql", "--bootstrap", bootstrap]
    sql = "SELECT length(repeat(value, 2000000000)) FROM topic('orders')"
    refused = subprocess.run([*command, sql, "--memory", "64"], capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 1
    assert "needs more than 64 MiB of memory: narrow it, or increase --memory" in refused.stderr


def test_a_condition_on_records_is_stopped_at_its_time_limit() -> None:
    with pytest.raises(QueryError, match=r"more than 0\.5 s"):
        isolated.open_filter(f"{HOURS} > 0 OR value IS NULL", timeout_s=0.5, memory_bytes=256 * MIB)([RECORD])
    matching = isolated.open_filter("true", timeout_s=60, memory_bytes=256 * MIB)
    assert matching([RECORD]) == [0]


def test_filters_and_queries_take_turns_in_two_processes(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    isolated.close_idle()
    monkeypatch.setattr(isolated, "_places", threading.BoundedSemaphore(2))
    conditions = ("value = 'x'", "value = 'y'", '"offset" = 0', "key IS NULL")
    filters = [isolated.open_filter(each, timeout_s=60, memory_bytes=256 * MIB) for each in conditions]
    for _ in range(3):
        assert [matching([RECORD]) for matching in filters] == [[0], [], [0], [0]]
        assert query("SELECT count(*) FROM topic('orders') WHERE false", bootstrap=bootstrap).rows == [(0,)]
    assert len(children_of(os.getpid())) <= 2
    with pytest.raises(QueryError, match="Binder Error"):
        isolated.open_filter("no_such_column = 1", timeout_s=60, memory_bytes=256 * MIB)
    assert filters[0]([RECORD]) == [0]


def test_a_query_that_finds_all_processes_in_use_says_so(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "_places", threading.BoundedSemaphore(1))
    options: dict[str, Any] = {"bootstrap": bootstrap, "settings": {}, "timeout_s": 60, "memory_bytes": 256 * MIB}
    with (
        isolated.run("SELECT 1", **options),
        pytest.raises(TooManyQueries),
        isolated.run("SELECT 2", wait_s=0, **options),
    ):
        pass
    with isolated.run("SELECT 3", wait_s=0, **options) as rows:
        assert list(rows) == [(3,)]


def test_a_process_is_prepared_for_the_first_query(bootstrap: str) -> None:
    isolated.close_idle()
    isolated.prepare()
    isolated.prepare()
    # The kernel shows the command of a new process a moment after its start.
    eventually(lambda: bool(children_of(os.getpid())), what="the process")
    (child,) = children_of(os.getpid())
    query("SELECT 1", bootstrap=bootstrap)
    assert children_of(os.getpid()) == [child]


def test_a_condition_on_records_is_stopped_at_its_memory_limit() -> None:
    condition = "length(repeat(value, 2000000000)) > 0"
    matching = isolated.open_filter(condition, timeout_s=60, memory_bytes=256 * MIB)
    with pytest.raises(QueryError, match="memory"):
        matching([RECORD])
