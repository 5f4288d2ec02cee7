"""The console's pages in a browser, against Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.console import sample
from tests.console.browser import Visitor
from tests.console.conftest import Sample
from tests.console.console_process import ConsoleProcess
from tests.support.apache_kafka import ApacheKafka
from tests.support.sharing import Sharing

pytestmark = pytest.mark.browser

PAGES = {
    "": "Busiest topics",
    "topics": "web.clicks",
    "topics/orders": "Latest",
    "topics/orders?tab=settings": "retention.ms",
    "topics/orders/records": "newest first",
    "topics/orders/records?view=columns": "customer",
    "topics/orders/records/0/10": "Equivalent command",
    "groups/billing": "Lag over time",
    "queues": "There are no share groups",
    "dead-letters/orders.dlq": "payments.gateway.Timeout",
    "transactions": "There are no transactions",
    "nodes": "High watermark",
    "nodes/1": "Data folders",
    "access": "producer_byte_rate",
    "sql": "Examples",
}


@contextmanager
def apache_with_console() -> Iterator[Sample]:
    with ExitStack() as stack:
        kafka = stack.enter_context(ApacheKafka())
        sample.fill(kafka.bootstrap)
        console = stack.enter_context(ConsoleProcess(kafka.bootstrap))
        yield Sample(kafka.bootstrap, console)


@pytest.fixture
def world(sharing: Sharing) -> Sample:
    return sharing.of(apache_with_console)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_draws(world: Sample, visitor: Visitor, path: str) -> None:
    page = visitor.open(world.console.page(path))
    page.get_by_text(PAGES[path]).locator("visible=true").first.wait_for()
    assert page.get_by_role("alert").count() == 0


def test_a_topic_is_created_filled_and_tailed(world: Sample, visitor: Visitor) -> None:
    page = visitor.open(world.console.page("topics"))
    page.get_by_role("button", name="Create topic").click()
    page.get_by_role("dialog").locator("[name='topic']").fill("fresh")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Execute").click()
    page.get_by_role("dialog").get_by_role("status").get_by_text("fresh").wait_for()
    visitor.open(world.console.page("topics/fresh/records?live=1"))
    page.get_by_text("Live", exact=True).nth(1).wait_for()
    sample.produce_orders(world.bootstrap, "fresh", 30)
    page.locator("[data-count=shown][data-value='30']").wait_for()
