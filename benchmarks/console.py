"""`python -m benchmarks.console [PART ...]`: the web console against its limits, on a node of its own.

Parts: pages (1,000 and 10,000 topics), search (a million JSON records), large (a record of 18 MB), tail (5,000 records
of 1 KB per second), memory (two queries and a tail with a condition at a time), broker (small requests with and without
an open overview and tail). Pages, large, tail and broker need Chromium. Memory is the proportional set size, in which
pages that processes share count once. Each row is a figure and its limit; the exit code is 1 if a limit was missed.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import sys
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.frames import produce_frame
from benchmarks.load import Load
from benchmarks.proc import cpu_seconds, proportional_memory_mb
from tests.console.browser import WIDE, chromium_path
from tests.console.console_process import ConsoleProcess
from tests.support.penstock_process import PenstockProcess
from tests.support.ports import HOST

RECORDS: Final = 1_000_000
CITIES: Final = ("Riga", "Lyon", "Oslo", "Cork")
LARGE_SIZE: Final = 18_000_000
TAIL_RATE: Final = 5000
TAIL_SIZE: Final = 1000
REQUESTS: Final = 150_000
# Started before the page's own scripts, so no long task is missed.
WATCH_TASKS: Final = """
window.tasks = [];
new PerformanceObserver((list) => list.getEntries().forEach((each) => window.tasks.push(Math.round(each.duration))))
    .observe({ type: "longtask", buffered: true });
"""

# Notes when the text is on the screen: a frame after it is in the document.
WATCH_PAINT: Final = """
window.painted = 0;
let isFound = false;
new MutationObserver(() => {
    if (isFound || !document.body?.textContent.includes(%s)) return;
    isFound = true;
    requestAnimationFrame(() => setTimeout(() => { window.painted = performance.now(); }));
}).observe(document, { childList: true, subtree: true, characterData: true });
"""
PAGE_MS_MAX: Final = 300
PAGE_READS: Final = 60
PAGE_PAUSE_S: Final = 0.2
PAGE_VISITS: Final = 7


@dataclass(frozen=True, slots=True)
class Row:
    """A figure and its limit."""

    name: str
    figure: float
    unit: str
    most: float | None = None
    least: float | None = None

    @property
    def is_met(self) -> bool:
        return (self.most is None or self.figure <= self.most) and (self.least is None or self.figure >= self.least)

    def __str__(self) -> str:
        limit = f"at most {self.most:g}" if self.most is not None else f"at least {self.least:g}" if self.least else ""
        return f"{'ok    ' if self.is_met else 'MISSED'} {self.name:<58} {self.figure:>10,.2f} {self.unit:<8} {limit}"


class Place:
    """A node, its console, and a browser that is started when it is needed."""

    def __init__(self, node: PenstockProcess, console: ConsoleProcess, stack: ExitStack, seconds: float) -> None:
        self.node = node
        self.console = console
        self.seconds = seconds
        self._stack = stack
        self._browser: Any = None

    def get(self, path: str) -> tuple[float, bytes]:
        """Return how long a request took, and the body."""
        connection = http.client.HTTPConnection(HOST, self.console.port, timeout=120)
        began = time.perf_counter()
        connection.request("GET", f"/api/c/local/{path}")
        response = connection.getresponse()
        body = response.read()
        seconds = time.perf_counter() - began
        connection.close()
        assert response.status == 200, (path, response.status, body[:300])
        return seconds, body

    def sql(self, query: str) -> list[list[Any]]:
        """Run a query as the SQL page does; return its rows."""
        connection = http.client.HTTPConnection(HOST, self.console.port, timeout=120)
        connection.request("GET", "/api/session")
        token = json.loads(connection.getresponse().read())["token"]
        headers = {"Content-Type": "application/json", "X-Penstock-Token": token}
        connection.request("POST", "/api/c/local/sql", json.dumps({"sql": query}), headers)
        response = connection.getresponse()
        body = response.read()
        connection.close()
        assert response.status == 200, (query, response.status, body[:300])
        rows: list[list[Any]] = json.loads(body)["rows"]
        return rows

    @contextmanager
    def page(self) -> Iterator[Any]:
        """Open a page of the browser that counts long tasks."""
        if self._browser is None:
            from playwright.sync_api import sync_playwright

            driver = self._stack.enter_context(sync_playwright())
            self._browser = driver.chromium.launch(
                executable_path=chromium_path(),
                args=["--no-sandbox", "--disable-dev-shm-usage", "--enable-precise-memory-info"],
            )
            self._stack.callback(self._browser.close)
        context = self._browser.new_context(viewport=WIDE)
        context.set_default_timeout(120_000)
        context.add_init_script(WATCH_TASKS)
        try:
            yield context.new_page()
        finally:
            context.close()

    def topic(self, name: str, partitions: int = 1, config: dict[str, str] | None = None) -> str:
        admin = AdminClient({"bootstrap.servers": self.node.bootstrap, "log_level": 3})
        admin.create_topics([NewTopic(name, partitions, 1, config=config or {})])[name].result(timeout=60)
        return name


def pages(place: Place) -> Iterator[Row]:
    """Measure the first page and the list of topics: the data, and the page as drawn in the browser.

    The data is requested at intervals, so that some requests find a cache that has expired or a sample being taken.
    """
    for total, path, name in ((1000, "", "overview"), (10_000, "topics", "topics")):
        _create_topics(place, total)
        # The console samples the cluster every few seconds; wait until it knows the new topics.
        while json.loads(place.get("topics?size=1")[1])["total"] < total:
            time.sleep(0.5)
        times = []
        for _ in range(PAGE_READS):
            times.append(place.get(name)[0] * 1000)
            time.sleep(PAGE_PAUSE_S)
        yield Row(f"/api {name} with {total:,} topics, median of {len(times)}", median(times), "ms", most=PAGE_MS_MAX)
        yield Row(f"/api {name} with {total:,} topics, slowest of {len(times)}", max(times), "ms", most=PAGE_MS_MAX)
        first, again = _draw_ms(place, path)
        for visit, found in (("first", first), ("later", again)):
            what = f"{name} drawn with {total:,} topics, {visit} visits"
            yield Row(f"{what}, median of {len(found)}", median(found), "ms", most=PAGE_MS_MAX)
            yield Row(f"{what}, slowest of {len(found)}", max(found), "ms")


def _create_topics(place: Place, total: int) -> None:
    admin = AdminClient({"bootstrap.servers": place.node.bootstrap, "log_level": 3})
    known = {each for each in admin.list_topics(timeout=60).topics if each.startswith("many-")}
    names = [name for number in range(total) if (name := f"many-{number:05}") not in known]
    for at in range(0, len(names), 500):
        for made in admin.create_topics([NewTopic(name, 1, 1) for name in names[at : at + 500]]).values():
            made.result(timeout=120)


def _draw_ms(place: Place, path: str) -> tuple[list[float], list[float]]:
    """Return the times from the start of the navigation until the page's data is painted.

    The first list has the visits of browsers with an empty cache, the second those that follow.
    """
    marks = {"": "Busiest topics", "topics": "many-00001"}
    first: list[float] = []
    again: list[float] = []
    for _ in range(PAGE_VISITS):
        with place.page() as page:
            page.add_init_script(WATCH_PAINT % json.dumps(marks[path]))
            for times in (first, again):
                page.goto(place.console.page(path), wait_until="commit")
                page.wait_for_function("() => painted > 0")
                times.append(page.evaluate("painted"))
                # The page reads its data again at intervals; this one is measured alone.
                page.goto("about:blank")
    return first, again


def search(place: Place) -> Iterator[Row]:
    """Search all of a million records for something that only the last one contains."""
    topic = _create_searched(place)
    place.get(f"topics/{topic}/records")  # as the page does before a search
    last = f'"id": {RECORDS - 1},'
    for name, query in (
        ("text", {"text": last}),
        ("SQL condition", {"where": f"(value->>'$.id')::BIGINT = {RECORDS - 1}"}),
    ):
        began = time.perf_counter()
        first = _search(place, topic, query)
        yield Row(f"search of 1 M JSON records, {name}, first", first - began, "s", most=5)
        began = time.perf_counter()
        yield Row(f"search of 1 M JSON records, {name}, second", _search(place, topic, query) - began, "s", most=5)
    yield Row("search stopped: until its process has ended", _stop_search(place, topic), "s", most=1)


def _create_searched(place: Place) -> str:
    topic = place.topic("searched")
    producer = Producer(
        {"bootstrap.servers": place.node.bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 2 * RECORDS}
    )
    for number in range(RECORDS):
        value = json.dumps({"id": number, "city": CITIES[number % 4], "amount": number % 97})
        producer.produce(topic, key=str(number % 5000), value=value)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0
    return topic


def _search(place: Place, topic: str, query: dict[str, str]) -> float:
    """Return when the search had found its record."""
    for event, data in _events(place, topic, query):
        assert event != "failed", data
        if event == "done":
            assert (data["scanned"], data["found"]) == (RECORDS, 1), data
            return time.perf_counter()
    raise AssertionError("the search has no end")


def _events(place: Place, topic: str, query: dict[str, str], *, source: str = "search") -> Iterator[tuple[str, Any]]:
    connection = http.client.HTTPConnection(HOST, place.console.port, timeout=120)
    connection.request("GET", f"/api/c/local/topics/{topic}/records/{source}?{urllib.parse.urlencode(query)}")
    response = connection.getresponse()
    assert response.status == 200, response.read()
    event = ""
    try:
        for line in response:
            if line.startswith(b"event: "):
                event = line[7:].strip().decode()
            elif line.startswith(b"data: "):
                yield event, json.loads(line[6:])
    finally:
        connection.close()


def _stop_search(place: Place, topic: str) -> float:
    """Return the time from closing the connection until the process of the search is gone."""
    slow = urllib.parse.urlencode({"where": "levenshtein(repeat(value, 40), repeat(value, 39)) < 0"})
    before = {pid: cpu_seconds(pid) for pid in _children(place)}
    with socket.create_connection((HOST, place.console.port)) as connection:
        target = f"/api/c/local/topics/{topic}/records/search?{slow}"
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: {HOST}:{place.console.port}\r\n\r\n".encode())
        _wait(lambda: any(cpu_seconds(pid) - before.get(pid, 0) > 0.5 for pid in _children(place)), "the search")
        (searching,) = (pid for pid in _children(place) if cpu_seconds(pid) - before.get(pid, 0) > 0.5)
    began = time.perf_counter()
    _wait(lambda: searching not in _children(place), "the end of the search")
    return time.perf_counter() - began


def large(place: Place) -> Iterator[Row]:
    topic = place.topic("large", config={"max.message.bytes": "30000000"})
    producer = Producer({"bootstrap.servers": place.node.bootstrap, "message.max.bytes": 30_000_000})
    producer.produce(topic, json.dumps({"id": 2**63 - 1, "text": ["y" * 90] * (LARGE_SIZE // 94)}))
    assert producer.flush(120) == 0
    with place.page() as page:
        for name, path in (("in a list", f"topics/{topic}/records"), ("opened", f"topics/{topic}/records/0/0")):
            began = time.perf_counter()
            page.goto(place.console.page(path), wait_until="commit")
            page.get_by_text(str(2**63 - 1)).first.wait_for()
            yield Row(f"record of 18 MB {name}", time.perf_counter() - began, "s", most=5)
            yield Row(
                f"record of 18 MB {name}: longest browser task", max(page.evaluate("tasks"), default=0), "ms", most=200
            )


def tail(place: Place) -> Iterator[Row]:
    topic = place.topic("tailed", 3)
    with place.page() as page:
        page.goto(place.console.page(f"topics/{topic}/records?live=1"))
        page.get_by_text("Live", exact=True).nth(1).wait_for()
        page.evaluate("tasks.length = 0")
        cpu, began = _cpu(place), time.perf_counter()
        heaps: list[float] = []
        sizes: list[float] = []
        total = 0
        producing = threading.Event()

        def produce() -> None:
            nonlocal total
            total = _produce_at_rate(place, topic)
            producing.set()

        threading.Thread(target=produce, daemon=True).start()
        while not producing.wait(0.01):
            page.wait_for_timeout(1000)
            heaps.append(page.evaluate("performance.memory.usedJSHeapSize / 1e6"))
            sizes.append(_memory_mb(place))
        cores = (_cpu(place) - cpu) / (time.perf_counter() - began)
        page.wait_for_function(
            "total => ['shown', 'skipped'].reduce((sum, each) => "
            "sum + Number(document.querySelector(`[data-count=${each}]`).dataset.value), 0) >= total",
            arg=total,
        )
        counted = page.evaluate(
            "['shown', 'skipped'].reduce((sum, each) => "
            "sum + Number(document.querySelector(`[data-count=${each}]`).dataset.value), 0)"
        )
        tasks = sorted(page.evaluate("tasks"))
    seconds = place.seconds
    yield Row(f"tail: records per second for {seconds:.0f} s", total / seconds, "/s", least=TAIL_RATE * 0.98)
    yield Row("tail: shown + skipped - produced", counted - total, "", most=0)
    yield Row("tail: longest browser task", max(tasks, default=0), "ms", most=200)
    yield Row("tail: browser tasks over 50 ms", len(tasks), "")
    yield Row("tail: largest browser heap", max(heaps), "MB", most=150)
    # Garbage is collected now and then, so a third of the time is compared with another, not a moment with a moment.
    third = max(1, len(heaps) // 3)
    growth = median(heaps[-third:]) - median(heaps[third : 2 * third] or heaps)
    yield Row("tail: growth of the heap in the last third", growth, "MB", most=10)
    yield Row("tail: console, cores", cores, "", most=0.6)
    yield Row("tail: console, memory with its children", max(sizes), "MB", most=400)


def memory(place: Place) -> Iterator[Row]:
    """Keep both child processes busy: a search, an aggregation, and a tail with an SQL condition at the same time."""
    searched = _create_searched(place)
    tailed = place.topic("tailed", 3)
    yield Row("memory: console before the first query", _memory_mb(place), "MB", most=400)
    condition = "(value->>'$.number')::BIGINT % 1000 = 0"
    ended = threading.Event()
    done: Counter[str] = Counter()

    def search_again() -> None:
        while not ended.is_set():
            _search(place, searched, {"where": f"(value->>'$.id')::BIGINT = {RECORDS - 1}"})
            done["searches"] += 1

    def aggregate_again() -> None:
        while not ended.is_set():
            amount = "sum((value->>'$.amount')::INT)"
            rows = place.sql(f"SELECT key, value->>'$.city', {amount} FROM topic('{searched}') GROUP BY ALL")
            assert len(rows) == 1000, rows[:3]
            done["aggregations"] += 1

    def tail() -> None:
        for event, data in _events(place, tailed, {"where": condition}, source="tail"):
            assert event not in ("failed", "problem"), data
            done["records in the tail"] += len(data.get("rows", ()))
            if ended.is_set():
                return

    workers = [threading.Thread(target=each, daemon=True) for each in (search_again, aggregate_again, tail)]
    producing = threading.Thread(target=_produce_at_rate, args=(place, tailed), daemon=True)
    for each in (*workers, producing):
        each.start()
    sizes = []
    while producing.is_alive():
        sizes.append(_memory_mb(place))
        producing.join(0.25)
    ended.set()
    for each in workers:
        each.join(60)
        assert not each.is_alive(), "a query has no end"
    for name, count in sorted(done.items()):
        yield Row(f"memory: {name}", count, "", least=1)
    yield Row("memory: console with its children, largest", max(sizes), "MB", most=400)
    yield Row("memory: console with its children, median", median(sizes), "MB", most=400)


def _memory_mb(place: Place) -> float:
    """Return the memory of the console and its children; what they share, such as libraries, counts once."""
    found = 0.0
    for pid in (place.console.pid, *_children(place)):
        # A child may end at any time.
        with suppress(OSError):
            found += proportional_memory_mb(pid)
    return found


def _produce_at_rate(place: Place, topic: str) -> int:
    """Produce for the given time; return how many records."""
    producer = Producer({"bootstrap.servers": place.node.bootstrap, "linger.ms": 20})
    filler = "x" * (TAIL_SIZE - 40)
    began, sent = time.perf_counter(), 0
    while (now := time.perf_counter() - began) < place.seconds:
        for number in range(sent, int(now * TAIL_RATE)):
            producer.produce(topic, json.dumps({"number": number, "filler": filler}))
            sent += 1
        producer.poll(0.01)
    for _ in range(sent, int(place.seconds * TAIL_RATE)):
        producer.produce(topic, filler)
        sent += 1
    assert producer.flush(120) == 0
    return sent


def broker(place: Place) -> Iterator[Row]:
    """Compare the best of alternating rounds with and without an open overview and a tail.

    On a busy machine the rate says little, so the CPU time of the broker per request is compared as well.
    """
    load = Load()
    topic = place.topic("small")
    frame = produce_frame(topic, size=100, acks=1)

    def measure() -> tuple[float, float]:
        """Return requests per second, and requests per second of the broker's CPU time."""
        before = cpu_seconds(place.node.pid)
        found = load.requests(place.node.bootstrap, frame, connections=8, depth=4, count=REQUESTS)
        used = cpu_seconds(place.node.pid) - before
        return float(found["requests"] / found["seconds"]), float(found["requests"] / used)

    tailed = place.topic("watched")
    without, with_pages = [], []
    measure()
    for _ in range(4):
        without.append(measure())
        with place.page() as overview, place.page() as tail_page:
            overview.goto(place.console.page())
            overview.get_by_text("Busiest topics").wait_for()
            tail_page.goto(place.console.page(f"topics/{tailed}/records?live=1"))
            tail_page.get_by_text("Live", exact=True).nth(1).wait_for()
            with_pages.append(measure())
    for name, at in (("per second", 0), ("per second of CPU time", 1)):
        best, best_with = max(each[at] for each in without), max(each[at] for each in with_pages)
        yield Row(f"broker: small requests {name}, no page open", best, "/s")
        yield Row(f"broker: small requests {name}, overview and tail open", best_with, "/s")
        yield Row(f"broker: small requests {name}, ratio", best_with / best, "", least=0.9)


def _children(place: Place) -> list[int]:
    """Return the processes that the console has started."""
    found = []
    for task in Path(f"/proc/{place.console.pid}/task").glob("*/children"):
        found += [int(each) for each in task.read_text().split()]
    return found


def _cpu(place: Place) -> float:
    return cpu_seconds(place.console.pid) + sum(cpu_seconds(pid) for pid in _children(place))


def _wait(is_true: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < until, f"waited in vain for {what}"
        time.sleep(0.01)


PARTS: Final = {"pages": pages, "search": search, "large": large, "tail": tail, "memory": memory, "broker": broker}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.console", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    parser.add_argument("--seconds", type=float, default=60, help="how long tail and memory run")
    given = parser.parse_args()
    is_met = True
    for name in given.parts or PARTS:
        with ExitStack() as stack:
            node = stack.enter_context(PenstockProcess(properties={"message.max.bytes": "30000000"}))
            console = stack.enter_context(ConsoleProcess(node.bootstrap))
            for row in PARTS[name](Place(node, console, stack, given.seconds)):
                is_met &= row.is_met
                print(row, f"  load {os.getloadavg()[0]:.1f}", flush=True)
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
