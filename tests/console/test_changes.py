"""Every change that the console offers: form, preview with the equivalent command, execution, result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.console import sample
from tests.console.browser import Visitor
from tests.console.conftest import Sample
from tests.console.console_process import ConsoleProcess
from tests.support.eventually import eventually
from tests.support.penstock_cluster import PenstockCluster
from tests.support.penstock_process import PenstockProcess

pytestmark = pytest.mark.browser


class Dialog:
    """The dialog of a change."""

    def __init__(self, page: Any, button: str, *, within: Any = None, exact: bool = True) -> None:
        (within or page.get_by_role("main")).get_by_role("button", name=button, exact=exact).first.click()
        self.page = page
        self.dialog = page.get_by_role("dialog")
        self.dialog.wait_for()

    def fill(self, **values: str) -> Dialog:
        for name, value in values.items():
            field = self.dialog.locator(f"[name='{name.replace('_', '-') if name == 'client_id' else name}']")
            if field.evaluate("each => each.tagName") == "SELECT":
                field.select_option(value)
            else:
                field.fill(value)
        return self

    def preview(self) -> str:
        """Ask for the plan; return the equivalent command."""
        self.dialog.get_by_role("button", name="Preview").click()
        return self.command()

    def command(self) -> str:
        self.dialog.get_by_role("button", name="Execute").wait_for()
        return str(self.dialog.get_by_label("Equivalent command").inner_text())

    def execute(self) -> str:
        """Execute the plan; return the message."""
        self.dialog.get_by_role("button", name="Execute").click()
        self.dialog.get_by_role("button", name="Close").last.wait_for()
        message = self.dialog.get_by_role("status")
        message.wait_for()
        return str(message.inner_text())

    def close(self) -> None:
        self.dialog.get_by_role("button", name="Close").last.click()
        self.dialog.wait_for(state="detached")


def make_topic(world: Sample, name: str, partitions: int = 1, records: int = 0) -> str:
    sample.create_topics(world.bootstrap, {name: partitions})
    sample.produce_orders(world.bootstrap, name, records)
    return name


def ends(bootstrap: str, topic: str, partition: int = 0) -> tuple[int, int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ends"})
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
        return low, high
    finally:
        consumer.close()


def topic_names(bootstrap: str) -> set[str]:
    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics)


def test_a_topic_is_created_and_deleted(world: Sample, visitor: Visitor) -> None:
    page = visitor.open(world.console.page("topics"))
    dialog = Dialog(page, "Create topic").fill(topic="made-here", partitions="3", settings="retention.ms=1000000")
    assert visitor.axe() == []
    command = dialog.preview()
    assert "penstock topic create made-here" in command
    assert "made-here" not in topic_names(world.bootstrap)
    assert visitor.axe() == []
    assert "made-here" in dialog.execute()
    dialog.close()
    page.get_by_role("link", name="made-here", exact=True).click()
    page.get_by_role("heading", name="made-here").wait_for()
    dialog = Dialog(page, "Delete topic")
    assert "penstock topic delete made-here" in dialog.command()
    assert "made-here" in dialog.execute()
    page.get_by_role("heading", name="Topics", level=1, include_hidden=True).wait_for()
    dialog.close()
    eventually(lambda: "made-here" not in topic_names(world.bootstrap))


def test_an_invalid_topic_is_refused_with_a_sentence(world: Sample, visitor: Visitor) -> None:
    page = visitor.open(world.console.page("topics"))
    dialog = Dialog(page, "Create topic").fill(topic="not a name")
    dialog.dialog.get_by_role("button", name="Preview").click()
    dialog.dialog.get_by_role("alert").get_by_text("not a name").wait_for()
    assert dialog.dialog.get_by_role("button", name="Execute").is_disabled()
    dialog.dialog.get_by_role("button", name="Back").click()
    dialog.fill(topic="fine", settings="no equals sign")
    dialog.dialog.get_by_role("button", name="Preview").click()
    dialog.dialog.get_by_role("alert").get_by_text("name=value").wait_for()
    dialog.dialog.get_by_role("button", name="Cancel").click()
    dialog.dialog.wait_for(state="detached")


def test_partitions_are_added_and_records_deleted(world: Sample, visitor: Visitor) -> None:
    topic = make_topic(world, "growing", records=20)
    page = visitor.open(world.console.page(f"topics/{topic}"))
    page.get_by_role("table").wait_for()
    dialog = Dialog(page, "Add partitions").fill(partitions="4")
    assert "penstock topic" in dialog.preview()
    dialog.execute()
    dialog.close()
    page.locator("tbody tr").nth(3).wait_for()
    dialog = Dialog(page, "Delete records").fill(partition="0", before="12")
    dialog.preview()
    dialog.execute()
    dialog.close()
    eventually(lambda: ends(world.bootstrap, topic) == (12, 20))


def test_settings_are_reviewed_and_changed(world: Sample, visitor: Visitor) -> None:
    topic = make_topic(world, "tuned")
    page = visitor.open(world.console.page(f"topics/{topic}?tab=settings"))
    page.get_by_label("Search settings").fill("retention.ms")
    page.get_by_role("button", name="Edit retention.ms").click()
    page.get_by_label("Value of retention.ms").fill("4242")
    dialog = Dialog(page, "Review changes")
    assert "retention.ms=4242" in dialog.command()
    dialog.execute()
    dialog.close()
    page.get_by_text("4242", exact=True).wait_for()
    page.get_by_role("button", name="Reset retention.ms to its default").click()
    dialog = Dialog(page, "Review changes")
    dialog.command()
    dialog.execute()
    dialog.close()
    page.get_by_text("4242", exact=True).wait_for(state="detached")


@pytest.mark.parametrize("path", ["nodes?tab=settings", "nodes/1"])
def test_settings_of_brokers_are_changed(world: Sample, visitor: Visitor, path: str) -> None:
    page = visitor.open(world.console.page(path))
    page.get_by_label("Name of a setting to set").fill("log.retention.ms")
    page.get_by_role("button", name="Set", exact=True).click()
    page.get_by_label("Value of log.retention.ms").fill("86400001")
    dialog = Dialog(page, "Review changes")
    assert "log.retention.ms=86400001" in dialog.command()
    dialog.execute()
    dialog.close()
    page.get_by_text("86400001", exact=True).first.wait_for()


def test_records_are_produced_and_copied(world: Sample, visitor: Visitor) -> None:
    topic = make_topic(world, "written", partitions=1)
    page = visitor.open(world.console.page(f"topics/{topic}/produce"))
    page.locator("[name='key_kind']").select_option("text")
    page.locator("[name='key']").fill("k")
    page.locator("[name='value']").fill('{"n": 9223372036854775807}')
    page.locator("[name='copies']").fill("2")
    page.get_by_role("button", name="Add header").click()
    page.get_by_label("Name of header 1").fill("trace")
    page.get_by_label("Value of header 1").fill("01")
    dialog = Dialog(page, "Preview")
    assert "penstock produce written" in dialog.command()
    assert "2" in dialog.execute()
    dialog.close()
    visitor.open(world.console.page(f"topics/{topic}/records/0/1"))
    page.get_by_text("9223372036854775807").first.wait_for()
    page.get_by_role("link", name="Produce a copy").click()
    page.wait_for_url("**/produce?copy=0%3A1")
    page.wait_for_function("() => document.querySelector(\"[name='value']\")?.value.includes('9223372036854775807')")
    assert page.get_by_label("Name of header 1").input_value() == "trace"
    dialog = Dialog(page, "Preview")
    dialog.command()
    dialog.execute()
    dialog.close()
    assert ends(world.bootstrap, topic) == (0, 3)


def test_bytes_are_copied_exactly(world: Sample, visitor: Visitor) -> None:
    topic = make_topic(world, "binary")
    producer = Producer({"bootstrap.servers": world.bootstrap})
    producer.produce(topic, b"\x00\xff\xc3\x28", b"\xfe")
    assert producer.flush(60) == 0
    page = visitor.open(world.console.page(f"topics/{topic}/produce?copy=0:0"))
    page.wait_for_function("() => document.querySelector(\"[name='value']\")?.value === 'AP/DKA=='")
    dialog = Dialog(page, "Preview")
    dialog.command()
    dialog.execute()
    dialog.close()
    consumer = Consumer({"bootstrap.servers": world.bootstrap, "group.id": "copies", "auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition(topic, 0, 1)])
        copy = consumer.poll(60)
        assert copy is not None
        assert (copy.key(), copy.value()) == (b"\xfe", b"\x00\xff\xc3\x28")
    finally:
        consumer.close()


def test_offsets_are_reset_with_a_preview_and_the_group_is_deleted(world: Sample, visitor: Visitor) -> None:
    topic = make_topic(world, "counted", records=30)
    sample.commit(world.bootstrap, "counters", topic, behind=5)
    page = visitor.open(world.console.page("groups/counters"))
    page.get_by_role("table", name="Partitions").or_(page.get_by_role("region", name="Partitions")).first.wait_for()
    dialog = Dialog(page, "Reset offsets").fill(to="-10")
    assert "penstock group reset counters" in dialog.preview()
    dialog.dialog.get_by_role("cell", name="15", exact=True).first.wait_for()
    dialog.execute()
    dialog.close()
    page.get_by_role("cell", name="15", exact=True).first.wait_for()
    dialog = Dialog(page, "Delete group")
    dialog.command()
    dialog.execute()
    dialog.close()
    page.get_by_role("heading", name="Groups", level=1).wait_for()


def test_a_plan_that_is_out_of_date_is_refused_and_replaced(world: Sample, visitor: Visitor) -> None:
    topic = make_topic(world, "moving", records=10)
    sample.commit(world.bootstrap, "movers", topic, behind=5)
    page = visitor.open(world.console.page("groups/movers"))
    page.get_by_text("moving").first.wait_for()
    dialog = Dialog(page, "Reset offsets").fill(to="earliest")
    dialog.preview()
    sample.commit(world.bootstrap, "movers", topic, behind=2)
    dialog.dialog.get_by_role("button", name="Execute").click()
    dialog.dialog.get_by_text("The cluster has changed since the preview").wait_for()
    dialog.dialog.get_by_role("cell", name="8", exact=True).first.wait_for()
    dialog.execute()
    dialog.close()


def test_dead_letters_are_replayed_in_bulk(world: Sample, visitor: Visitor) -> None:
    make_topic(world, "replayed")
    page = visitor.open(world.console.page("dead-letters/orders.dlq?error=KeyError"))
    page.locator("details.letter").first.wait_for()
    dialog = Dialog(page, "Replay").fill(to="replayed")
    assert "penstock dlq replay" in dialog.preview()
    dialog.execute()
    eventually(lambda: ends(world.bootstrap, "replayed")[1] == 3)
    dialog.close()


def test_a_queue_is_purged(world: Sample, visitor: Visitor) -> None:
    page = visitor.open(world.console.page("queues/workers"))
    page.get_by_text("resizer").first.wait_for()
    dialog = Dialog(page, "Purge")
    dialog.dialog.get_by_role("button", name="Preview").click()
    # The sample's consumer is a member, so the broker would refuse.
    dialog.dialog.get_by_role("button", name="Execute").wait_for()
    assert "penstock queue purge" in dialog.dialog.inner_text()
    dialog.dialog.get_by_role("button", name="Cancel").click()


def test_a_transaction_is_aborted(world: Sample, visitor: Visitor) -> None:
    with sample.open_transaction(world.bootstrap):
        page = visitor.open(world.console.page("transactions"))
        page.get_by_role("link", name="billing-1").click()
        page.get_by_role("heading", name="billing-1").wait_for()
        dialog = Dialog(page, "Abort")
        assert "penstock txn abort billing-1" in dialog.command()
        dialog.execute()
        dialog.close()
        page.get_by_role("main").get_by_role("button", name="Abort", disabled=True).wait_for()


def test_quotas_are_set_and_removed(world: Sample, visitor: Visitor) -> None:
    page = visitor.open(world.console.page("access"))
    page.get_by_text("user reports").wait_for()
    dialog = Dialog(page, "Set quota").fill(user="visitor", name="producer_byte_rate", value="4096")
    assert "penstock quota set" in dialog.preview()
    dialog.execute()
    dialog.close()
    row = page.locator("tbody tr", has_text="user visitor")
    row.get_by_text("4,096").wait_for()
    dialog = Dialog(page, "Remove", within=row)
    dialog.command()
    dialog.execute()
    dialog.close()
    row.wait_for(state="detached")


def test_users_are_added_and_removed_and_a_password_is_shown_once(world: Sample, visitor: Visitor) -> None:
    page = visitor.open(world.console.page("access?tab=users"))
    dialog = Dialog(page, "Add user").fill(user="carol")
    assert "penstock user add carol" in dialog.preview()
    dialog.execute()
    dialog.dialog.get_by_text("The password is shown only once.").wait_for()
    dialog.close()
    row = page.locator("tbody tr", has_text="carol")
    row.wait_for()
    dialog = Dialog(page, "Password", within=row).fill(password="a-new-password")
    assert "a-new-password" not in dialog.preview()
    dialog.execute()
    dialog.close()
    dialog = Dialog(page, "Remove", within=row)
    dialog.command()
    dialog.execute()
    dialog.close()
    row.wait_for(state="detached")


@contextmanager
def authorized() -> Iterator[Sample]:
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with ExitStack() as stack:
        node = stack.enter_context(PenstockProcess(properties=properties))
        console = stack.enter_context(ConsoleProcess(node.bootstrap))
        yield Sample(node.bootstrap, console)


def test_acls_are_added_checked_and_removed(browser: Any) -> None:
    with authorized() as world:
        visitor = Visitor(browser)
        page = visitor.open(world.console.page("access?tab=acls"))
        page.get_by_text("There are no ACLs").wait_for()
        check = page.locator("form.card")
        check.locator("[name='principal']").fill("User:alice")
        check.locator("[name='resource']").fill("topic:orders")
        check.get_by_role("button", name="Check").click()
        check.get_by_text("Denied").wait_for()
        check.get_by_text("penstock acl allow").wait_for()
        assert visitor.axe() == []
        dialog = Dialog(page, "Add ACL").fill(principal="User:alice", operation="read", resource="topic:orders")
        assert "penstock acl allow" in dialog.preview()
        dialog.execute()
        dialog.close()
        row = page.locator("tbody tr", has_text="User:alice")
        row.wait_for()
        check.get_by_role("button", name="Check").click()
        check.get_by_text("Allowed").wait_for()
        dialog = Dialog(page, "Remove", within=row)
        dialog.command()
        dialog.execute()
        dialog.close()
        row.wait_for(state="detached")
        visitor.close()
        assert visitor.errors == []


def test_replicas_are_moved_and_leaders_elected(browser: Any) -> None:
    with ExitStack() as stack:
        cluster = stack.enter_context(PenstockCluster())
        # Placed by hand: otherwise the replicas may already be where they are moved to.
        placed = NewTopic("moved", 2, replica_assignment=[[1, 2], [2, 1]])
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([placed])["moved"].result()
        console = stack.enter_context(ConsoleProcess(cluster.bootstrap))
        visitor = Visitor(browser)
        page = visitor.open(console.page("topics/moved?tab=replicas"))
        dialog = Dialog(page, "Move replicas").fill(partition="0", to="3,2")
        assert "penstock cluster" in dialog.preview()
        dialog.execute()
        dialog.close()
        row = page.locator("tbody tr").first
        row.locator(".replica").nth(1).wait_for()
        page.wait_for_function(
            "() => [...document.querySelector('tbody tr').cells].slice(1).every("
            "(cell, at, all) => all.length !== 3 || (at === 0) === !cell.querySelector('.replica'))"
        )
        visitor.open(console.page("nodes"))
        for name in ("Spread replicas", "Elect preferred leaders"):
            dialog = Dialog(page, name)
            assert "penstock cluster" in dialog.command()
            dialog.dialog.get_by_role("button", name="Cancel").click()
            dialog.dialog.wait_for(state="detached")
        visitor.open(console.page("nodes/3"))
        dialog = Dialog(page, "Drain")
        assert "penstock cluster" in dialog.command()
        dialog.dialog.get_by_role("button", name="Cancel").click()
        visitor.close()
        assert visitor.errors == []
