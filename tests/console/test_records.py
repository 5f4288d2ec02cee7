"""Records in the browser: browse, seek, filter, tail, search, permalinks, exact digits, hostile contents."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.console import sample
from tests.console.browser import Visitor
from tests.console.conftest import Sample

pytestmark = pytest.mark.browser

KEPT_ROWS_MAX = 5000


def rows(page: Any) -> Any:
    return page.get_by_role("table", name="Records").locator(".virtual-body [role=row]")


def test_the_newest_records_are_first_and_older_ones_follow(world: Sample, visitor: Visitor) -> None:
    page = visitor.open(world.console.page("topics/audit.log/records"))
    rows(page).first.get_by_text("opened order 119").wait_for()
    page.get_by_text("100 records, newest first").wait_for()
    page.get_by_role("button", name="Load older").click()
    page.get_by_text("120 records, newest first").wait_for()


def test_only_visible_rows_are_elements(world: Sample, visitor: Visitor) -> None:
    page = visitor.open(world.console.page("topics/orders/records"))
    rows(page).first.wait_for()
    assert rows(page).count() < 60
    page.locator(".virtual").evaluate("each => { each.scrollTop = each.scrollHeight; }")
    page.locator("[role=row][aria-rowindex='101']").wait_for()
    assert rows(page).count() < 60


def test_records_are_found_by_offset_text_key_and_condition(world: Sample, visitor: Visitor) -> None:
    page = visitor.open(world.console.page("topics/audit.log/records"))
    rows(page).first.wait_for()
    page.get_by_label("From").fill("42")
    page.get_by_role("button", name="Apply").click()
    page.wait_for_url("**/records?from=42")
    rows(page).first.get_by_text("opened order 42").wait_for()
    visitor.open(world.console.page("topics/audit.log/records"))
    page.get_by_label("Contains").fill("order 77")
    page.keyboard.press("Enter")
    page.get_by_text("1 record, newest first").wait_for()
    visitor.open(world.console.page("topics/orders/records?key=mallory"))
    rows(page).first.get_by_text("mallory").first.wait_for()
    visitor.open(world.console.page("topics/orders/records?where=" + "value->>'$.customer' = 'carol'"))
    rows(page).first.get_by_text("carol").first.wait_for()
    visitor.open(world.console.page("topics/orders/records?where=no such column ="))
    page.get_by_role("alert").wait_for()


def test_the_condition_may_name_json_fields(world: Sample, visitor: Visitor) -> None:
    page = visitor.open(world.console.page("topics/orders/records"))
    rows(page).first.wait_for()
    page.get_by_label("SQL condition").fill("value->>'$.currency' = 'GBP'")
    page.get_by_role("button", name="Apply").click()
    rows(page).first.get_by_text("GBP").or_(rows(page).first.locator(".value").last).first.wait_for()
    page.get_by_text("read (").wait_for()


def test_json_fields_are_columns_with_exact_digits(world: Sample, visitor: Visitor) -> None:
    page = visitor.open(world.console.page("topics/orders/records?partition=0&from=earliest&view=columns"))
    page.get_by_role("columnheader", name="customer").wait_for()
    shown = [int(each) for each in rows(page).locator("[role=cell]:nth-child(5)").all_inner_texts()]
    assert shown
    assert all(sample.BIGGEST - 2500 < each <= sample.BIGGEST for each in shown)
    assert shown == sorted(shown, reverse=True)


def test_a_record_opens_beside_the_list_and_by_its_permalink(world: Sample, visitor: Visitor) -> None:
    page = visitor.open(world.console.page("topics/audit.log/records"))
    rows(page).first.click()
    drawer = page.get_by_role("dialog")
    drawer.get_by_role("heading", name="Record 0:119").wait_for()
    page.wait_for_url("**/records?open=0%3A119")
    assert visitor.axe() == []
    page.keyboard.press("[")
    drawer.get_by_role("heading", name="Record 0:118").wait_for()
    page.keyboard.press("Escape")
    drawer.wait_for(state="detached")
    rows(page).nth(1).click()
    page.get_by_role("dialog").get_by_role("link", name="Permalink").click()
    page.get_by_role("heading", name="Record 0:118", level=1).wait_for()
    assert page.url == world.console.page("topics/audit.log/records/0/118")
    page.get_by_text("opened order 118").first.wait_for()
    page.get_by_role("button", name="Hex").click()
    page.locator("[data-format=hex]", has_text="75 73 65 72").wait_for()
    visitor.open(world.console.page("topics/audit.log/records/0/5000"))
    page.get_by_role("alert").wait_for()


def test_rows_are_chosen_and_opened_with_the_keyboard(world: Sample, visitor: Visitor) -> None:
    page = visitor.open(world.console.page("topics/audit.log/records"))
    rows(page).first.wait_for()
    for key in ("j", "j", "k", "j", "Enter"):
        page.keyboard.press(key)
    page.get_by_role("heading", name="Record 0:118").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("l")
    page.get_by_text("Waiting for records").wait_for()
    assert page.url.endswith("live=1")


def test_the_tail_shows_counts_and_filters_new_records(world: Sample, visitor: Visitor) -> None:
    sample.create_topics(world.bootstrap, {"tailed": 2})
    page = visitor.open(world.console.page("topics/tailed/records?live=1&text=wanted"))
    page.get_by_text("Live", exact=True).nth(1).wait_for()
    producer = Producer({"bootstrap.servers": world.bootstrap})
    for number in range(40):
        producer.produce("tailed", f"{'wanted' if number % 4 == 0 else 'other'} {number}")
    assert producer.flush(60) == 0
    page.locator("[data-count=shown][data-value='10']").wait_for()
    page.locator("[data-count=filtered][data-value='30']").wait_for()
    page.get_by_role("button", name="Pause").click()
    producer.produce("tailed", "wanted while paused")
    assert producer.flush(60) == 0
    page.locator("[data-count=shown][data-value='11']").wait_for()
    assert page.get_by_text("wanted while paused").count() == 0
    page.get_by_role("button", name="Continue").click()
    page.get_by_text("wanted while paused").wait_for()


def test_the_tail_of_a_burst_keeps_the_newest_rows_and_counts_all(world: Sample, visitor: Visitor) -> None:
    total = 12_000
    sample.create_topics(world.bootstrap, {"burst": 3})
    page = visitor.open(world.console.page("topics/burst/records?live=1"))
    page.get_by_text("Live", exact=True).nth(1).wait_for()
    producer = Producer({"bootstrap.servers": world.bootstrap, "linger.ms": 20, "queue.buffering.max.messages": total})
    for number in range(total):
        producer.produce("burst", json.dumps({"number": number, "filler": "x" * 100}))
    assert producer.flush(60) == 0
    page.wait_for_function(
        "total => ['shown', 'skipped'].reduce((sum, each) => "
        "sum + Number(document.querySelector(`[data-count=${each}]`).dataset.value), 0) === total",
        arg=total,
    )
    kept = int(page.get_by_role("table", name="Records").get_attribute("aria-rowcount")) - 1
    assert 0 < kept <= KEPT_ROWS_MAX
    assert rows(page).count() < 60


def test_a_search_reads_everything_and_can_be_repeated(world: Sample, visitor: Visitor) -> None:
    page = visitor.open(world.console.page("topics/audit.log/records?mode=search&text=order 11"))
    page.get_by_text("Searched everything").wait_for()
    page.get_by_text("11 found").wait_for()
    page.get_by_label("Contains").fill("order 119")
    page.get_by_role("button", name="Search", exact=True).last.click()
    page.get_by_text("1 found", exact=True).wait_for()


def test_hostile_contents_stay_text(world: Sample, visitor: Visitor) -> None:
    page = visitor.open(world.console.page("topics/hostile/records"))
    page.get_by_text("<script>window.hacked = true</script>").first.wait_for()
    page.get_by_text("⟨U+202E⟩evil⟨U+202C⟩").first.wait_for()
    for offset in range(len(sample.HOSTILE) + 2):
        visitor.open(world.console.page(f"topics/hostile/records/0/{offset}"))
        page.get_by_role("heading", name="Equivalent command").wait_for()
    visitor.open(world.console.page("topics/hostile/records/0/6"))
    page.get_by_text("9223372036854775807").first.wait_for()
    visitor.open(world.console.page("topics/hostile/records?view=columns"))
    page.get_by_text("<b>name</b>").first.wait_for()
    visitor.open(world.console.page("groups/%3Cimg%20src%3Dx%20onerror%3D'window.hacked%3Dtrue'%3E"))
    page.get_by_role("heading", name="<img src=x onerror").wait_for()
    visitor.open(world.console.page("access"))
    page.get_by_text("<script>window.hacked=true</script>").wait_for()
    assert page.evaluate("window.hacked") is None


def test_a_large_record_opens_and_its_value_is_downloaded(world: Sample, visitor: Visitor) -> None:
    sample.create_topics(world.bootstrap, {"large": 1})
    size = 900_000
    producer = Producer({"bootstrap.servers": world.bootstrap})
    producer.produce("large", json.dumps({"text": "y" * size}))
    assert producer.flush(60) == 0
    page = visitor.open(world.console.page("topics/large/records/0/0"))
    page.get_by_text("Shown is the beginning of").wait_for()
    with page.expect_download() as started:
        page.get_by_role("link", name="Download the whole value").click()
    assert len(started.value.path().read_bytes()) > size


def test_records_are_downloaded_as_json_and_csv(world: Sample, visitor: Visitor) -> None:
    page = visitor.open(world.console.page("topics/audit.log/records"))
    for name in ("Download JSON", "Download CSV"):
        with page.expect_download() as started:
            page.get_by_role("link", name=name).click()
        assert b"opened order 119" in started.value.path().read_bytes()


def test_masked_fields_are_not_shown(world: Sample, visitor: Visitor) -> None:
    page = visitor.open(world.console.page("topics/payments/records?view=columns"))
    page.get_by_role("columnheader", name="currency").wait_for()
    place = page.get_by_role("columnheader").all_inner_texts().index("customer") + 1
    shown = set(rows(page).locator(f"[role=cell]:nth-child({place})").all_inner_texts())
    assert shown.isdisjoint(sample.CUSTOMERS)
