"""Pages recover by themselves: a node is killed while it is watched, the console restarts while a tail is open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.console import sample
from tests.console.browser import Visitor
from tests.console.console_process import ConsoleProcess
from tests.support.eventually import eventually
from tests.support.penstock_cluster import PenstockCluster
from tests.support.sharing import Sharing

pytestmark = pytest.mark.browser


class Place:
    """Three nodes and their console."""

    def __init__(self, cluster: PenstockCluster, console: ConsoleProcess) -> None:
        self.cluster = cluster
        self.console = console


@contextmanager
def three_nodes() -> Iterator[Place]:
    with ExitStack() as stack:
        cluster = stack.enter_context(PenstockCluster())
        sample.create_topics(cluster.bootstrap, {"orders": 3}, replicas=3)
        console = stack.enter_context(ConsoleProcess(cluster.bootstrap))
        yield Place(cluster, console)


@pytest.fixture
def place(sharing: Sharing) -> Place:
    return sharing.of(three_nodes)


@pytest.fixture
def visitor(browser: Any, place: Place) -> Iterator[Visitor]:
    made = Visitor(browser)
    yield made
    made.close()
    assert made.foreign_requests() == []


def write(bootstrap: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(first, first + count):
        producer.produce("orders", json.dumps({"number": number}), str(number))
    assert producer.flush(120) == 0


def shown(page: Any) -> int:
    return sum(int(page.locator(f"[data-count={each}]").get_attribute("data-value")) for each in ("shown", "skipped"))


def test_a_killed_node_is_reported_and_its_return_as_well(place: Place, visitor: Visitor) -> None:
    page = visitor.open(place.console.page())
    page.get_by_text("Nothing needs attention").wait_for()
    place.cluster.kill(3)
    page.get_by_role("main").locator("ul.attention").get_by_text("under-replicated").or_(
        page.locator("ul.attention li")
    ).first.wait_for()
    visitor.open(place.console.page("topics/orders?tab=replicas"))
    page.locator(".map .replica.late, .map .replica.gone").first.wait_for()
    place.cluster.restart(3)
    visitor.open(place.console.page())
    page.get_by_text("Nothing needs attention").wait_for(timeout=120_000)


def test_a_tail_continues_when_a_leader_is_killed(place: Place, visitor: Visitor) -> None:
    page = visitor.open(place.console.page("topics/orders/records?live=1"))
    page.get_by_text("Live", exact=True).nth(1).wait_for()
    write(place.cluster.bootstrap, 0, 30)
    eventually(lambda: shown(page) == 30, what="30 records in the tail")
    place.cluster.kill(2)
    write(place.cluster.bootstrap, 30, 30)
    eventually(lambda: shown(page) == 60, what="60 records in the tail", seconds_max=120)
    place.cluster.restart(2)


def test_a_page_recovers_when_the_cluster_was_gone(place: Place, visitor: Visitor) -> None:
    page = visitor.open(place.console.page("topics"))
    page.get_by_role("link", name="orders", exact=True).wait_for()
    place.cluster.kill_all()
    page.get_by_text("Not up to date.").wait_for()
    page.get_by_role("link", name="orders", exact=True).wait_for()
    place.cluster.start()
    page.get_by_text("Not up to date.").wait_for(state="detached", timeout=120_000)


def test_a_tail_continues_without_a_gap_when_the_console_restarts(place: Place, visitor: Visitor) -> None:
    page = visitor.open(place.console.page("topics/orders/records?live=1"))
    page.get_by_text("Live", exact=True).nth(1).wait_for()
    write(place.cluster.bootstrap, 100, 25)
    eventually(lambda: shown(page) == 25, what="25 records in the tail")
    place.console.stop()
    page.get_by_text("Reconnecting").wait_for()
    write(place.cluster.bootstrap, 125, 25)
    place.console.start()
    eventually(lambda: shown(page) == 50, what="50 records in the tail", seconds_max=120)


def test_a_page_says_that_the_console_is_gone_and_continues(place: Place, visitor: Visitor) -> None:
    page = visitor.open(place.console.page("topics"))
    page.get_by_role("link", name="orders", exact=True).wait_for()
    place.console.stop()
    page.get_by_text("Not up to date.").wait_for()
    page.get_by_role("link", name="orders", exact=True).wait_for()
    place.console.start()
    page.get_by_text("Not up to date.").wait_for(state="detached")
    # The token of the page is that of the old process: a change reads the new one.
    page.get_by_role("button", name="Create topic").click()
    page.get_by_role("dialog").locator("[name='topic']").fill("after-restart")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Execute").click()
    page.get_by_role("dialog").get_by_role("status").get_by_text("after-restart").wait_for()
