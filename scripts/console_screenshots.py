"""Pictures of every page of the console, in both themes, at 1280 and 390 pixels: `make screenshots`.

Starts three nodes with sample data, clients that keep them busy, and the console. Writes docs/images/console/. Needs
Chromium. Takes some minutes, mostly because lag over time needs time.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, Literal

from confluent_kafka import Consumer, Producer
from PIL import Image
from playwright.sync_api import sync_playwright

from tests.console import sample
from tests.console.browser import NARROW, WIDE, chromium_path
from tests.console.console_process import ConsoleProcess
from tests.support.penstock_cluster import PenstockCluster

FOLDER = Path(__file__).parents[1] / "docs" / "images" / "console"
# Fewer would turn the few red pixels of an error grey.
COLOURS = 256
THEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
PATIENCE_MS = 60_000
SQL = "SELECT value->>'$.customer' AS customer, count(*) AS orders FROM topic('orders') GROUP BY 1 ORDER BY 2 DESC"
# Name of the picture: path of the page, and a text that appears when its data is there.
PAGES = {
    "overview": ("", "Busiest topics"),
    "topics": ("topics", "web.clicks"),
    "topic": ("topics/orders", "In sync"),
    "topic-replicas": ("topics/orders?tab=replicas", "with replicas of this topic"),
    "topic-settings": ("topics/orders?tab=settings", "retention.ms"),
    "topic-skew": ("topics/orders?tab=skew", "Most frequent keys"),
    "records": ("topics/orders/records", "newest first"),
    "records-columns": ("topics/orders/records?view=columns", "currency"),
    "records-live": ("topics/orders/records?live=1", "eve"),
    "records-search": ("topics/payments/records?mode=search&text=mallory", "Searched everything"),
    "record": ("topics/orders/records/0/10", "Equivalent command"),
    "record-beside": ("topics/orders/records?open=0:10", "Equivalent command"),
    "hostile": ("topics/hostile/records", "onerror"),
    "produce": ("topics/orders/produce", "Add header"),
    "groups": ("groups", "shipping"),
    "group": ("groups/billing", "Lag over time"),
    "change": ("groups/shipping", "Lag over time"),
    "queues": ("queues", "workers"),
    "queue": ("queues/workers", "resizer"),
    "dead-letters": ("dead-letters", "orders.dlq"),
    "dead-letter": ("dead-letters/orders.dlq", "payments.gateway.Timeout"),
    "pipelines": ("pipelines", "sales"),
    "pipeline": ("pipelines/sales", "clean_orders"),
    "transactions": ("transactions", "billing-1"),
    "transaction": ("transactions/billing-1", "payments-"),
    "nodes": ("nodes", "High watermark"),
    "node": ("nodes/1", "Data folders"),
    "access-quotas": ("access", "producer_byte_rate"),
    "access-users": ("access?tab=users", "alice"),
    "access-acls": ("access?tab=acls", "Check access"),
    "sql": (f"sql?sql={SQL}", "Examples"),
}  # fmt: skip


class Clients:
    """A producer whose rate changes, and a consumer that sometimes falls behind."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._write, self._read)]

    def _write(self) -> None:
        chance = random.Random(9)
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 5})
        number = 0
        while not self._is_over.wait(0.1):
            number += 1
            for _ in range(4 + (number // 60) % 5):
                value = sample.order(number, chance)
                producer.produce("orders", json.dumps(value), value["customer"])
            if number % 4 == 0:
                producer.produce("payments", json.dumps(sample.order(number, chance)), "eve")
            producer.poll(0)
        producer.flush(30)

    def _read(self) -> None:
        consumer = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": "billing", "client.id": "billing-worker",
             "auto.commit.interval.ms": 1000}
        )  # fmt: skip
        consumer.subscribe(["orders"])
        while not self._is_over.is_set():
            is_slow = int(time.time()) % 60 < 25
            consumer.consume(2 if is_slow else 40, timeout=0.2)
            self._is_over.wait(0.1)
        consumer.close()

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(60)


@contextmanager
def busy_console() -> Iterator[ConsoleProcess]:
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = stack.enter_context(PenstockCluster(properties=properties, racks=("a", "b", "c")))
        sample.fill(cluster.bootstrap, replicas=3)
        sample.grant(cluster.bootstrap)
        stack.enter_context(sample.queue_member(cluster.bootstrap))
        stack.enter_context(sample.open_transaction(cluster.bootstrap))
        stack.enter_context(Clients(cluster.bootstrap))
        pipeline = stack.enter_context(sample.running_pipeline(folder / "sales"))
        yield stack.enter_context(ConsoleProcess(cluster.bootstrap, "--pipeline", str(pipeline)))


def take(page: Any, address: str, text: str, path: Path) -> None:
    page.goto(address)
    page.get_by_text(text).locator("visible=true").first.wait_for(timeout=PATIENCE_MS)
    if "/sql?" in address:
        page.get_by_role("button", name="Run").click()
        page.get_by_role("table", name="Result").wait_for(timeout=PATIENCE_MS)
    if address.endswith("groups/shipping"):
        page.get_by_role("button", name="Reset offsets").click()
        page.get_by_role("dialog").locator("[name='to']").fill("1m")
        page.get_by_role("button", name="Preview").click()
        page.get_by_role("button", name="Execute").wait_for(timeout=PATIENCE_MS)
    # Charts and second requests follow the first data.
    page.wait_for_load_state("networkidle") if "live=1" not in address else page.wait_for_timeout(4000)
    picture = Image.open(io.BytesIO(page.screenshot(full_page=page.get_by_role("dialog").count() == 0))).convert("RGB")
    picture.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="pictures to take; all by default")
    parser.add_argument("--wait", type=float, default=240.0, help="seconds of history before the first picture")
    given = parser.parse_args()
    path = chromium_path()
    if path is None:
        print("no Chromium is installed; PENSTOCK_CHROMIUM can name one", file=sys.stderr)
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    wanted = {name: PAGES[name] for name in given.names or PAGES}
    with busy_console() as console, sync_playwright() as driver:
        time.sleep(given.wait)
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        for viewport in (WIDE, NARROW):
            for theme in THEMES:
                page = browser.new_context(
                    viewport={"width": viewport["width"], "height": viewport["height"]}, color_scheme=theme
                ).new_page()
                for name, (address, text) in wanted.items():
                    take(page, console.page(address), text, FOLDER / f"{name}-{viewport['width']}-{theme}.png")
                    print(name, viewport["width"], theme, flush=True)
                page.context.close()
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
