"""Who may do what: a read-only console, login with the cluster's users, contents hidden from other computers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.console import sample
from tests.console.browser import Visitor
from tests.console.console_process import ConsoleProcess
from tests.support.penstock_process import PenstockProcess
from tests.support.ports import HOST
from tests.support.security import jaas
from tests.support.sharing import Sharing

pytestmark = pytest.mark.browser

PASSWORD = "correct horse"


@contextmanager
def node_with_logins() -> Iterator[PenstockProcess]:
    """A node that accepts logins on a second listener."""
    properties = {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": jaas(alice=PASSWORD),
    }
    with PenstockProcess(properties=properties, listeners={"CLIENTS": "SASL_PLAINTEXT"}) as node:
        sample.create_topics(node.bootstrap, {"orders": 2})
        sample.produce_orders(node.bootstrap, "orders", 20)
        yield node


@pytest.fixture
def node(sharing: Sharing) -> PenstockProcess:
    return sharing.of(node_with_logins)


@pytest.fixture
def visitor(browser: Any) -> Iterator[Visitor]:
    made = Visitor(browser)
    yield made
    made.close()
    assert made.errors == []
    assert made.foreign_requests() == []


def test_a_read_only_console_offers_no_change(node: PenstockProcess, visitor: Visitor) -> None:
    with ConsoleProcess(node.bootstrap, "--read-only") as console:
        page = visitor.open(console.page("topics"))
        page.get_by_role("link", name="orders", exact=True).wait_for()
        page.get_by_text("Read-only", exact=True).wait_for()
        create = page.get_by_role("button", name="Create topic")
        assert create.is_disabled()
        assert "--read-only" in create.get_attribute("title")
        visitor.open(console.page("topics/orders/produce"))
        page.get_by_role("button", name="Preview").wait_for()
        assert page.get_by_role("button", name="Preview").is_disabled()
        visitor.open(console.page("topics/orders?tab=settings"))
        page.get_by_role("button", name="Show all settings").click()
        page.get_by_text("retention.ms", exact=True).wait_for()
        assert page.get_by_role("button", name="Edit retention.ms").count() == 0
        visitor.open(console.page("topics/orders/records"))
        page.get_by_text("newest first").first.wait_for()
        assert visitor.axe() == []


def test_contents_are_hidden_from_other_computers(node: PenstockProcess, visitor: Visitor) -> None:
    with ConsoleProcess(node.bootstrap, host="0.0.0.0") as console:
        page = visitor.open(console.page("topics/orders/records"))
        page.get_by_text("Record contents are hidden").wait_for()
        assert page.get_by_role("table", name="Records").count() == 0
        visitor.open(console.page("topics"))
        page.get_by_text("Read-only", exact=True).wait_for()


def test_a_login_with_the_clusters_password_opens_the_pages(node: PenstockProcess, visitor: Visitor) -> None:
    words = ["--login", "-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=PLAIN"]
    with ConsoleProcess(node.address("CLIENTS"), *words) as console:
        page = visitor.open(console.page("topics"))
        page.get_by_role("heading", name="Log in").wait_for()
        assert visitor.axe() == []
        page.get_by_label("User").fill("alice")
        page.get_by_label("Password").fill("wrong")
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("alert").wait_for()
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("link", name="orders", exact=True).wait_for()
        page.get_by_text("Logged in as").wait_for()
        cookies = visitor.context.cookies()
        assert [(each["httpOnly"], each["sameSite"]) for each in cookies] == [(True, "Strict")]
        assert PASSWORD not in page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})")
        page.get_by_role("button", name="Log out").click()
        page.get_by_role("heading", name="Log in").wait_for()


def test_a_page_asks_for_a_new_login_after_a_restart(node: PenstockProcess, visitor: Visitor) -> None:
    words = ["--login", "-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=PLAIN"]
    with ConsoleProcess(node.address("CLIENTS"), *words) as console:
        page = visitor.open(console.page("topics"))
        page.get_by_label("User").fill("alice")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("link", name="orders", exact=True).wait_for()
        console.stop()
        console.start()
        page.get_by_role("heading", name="Log in").wait_for()


def test_several_clusters_are_listed(node: PenstockProcess, visitor: Visitor) -> None:
    with ConsoleProcess(node.bootstrap, "--cluster", f"other={node.bootstrap}") as console:
        page = visitor.open(console.address)
        page.get_by_role("link", name="other").click()
        page.get_by_role("heading", name="Overview").wait_for()
        page.get_by_label("Cluster").select_option("local")
        page.wait_for_url(f"http://{HOST}:{console.port}/c/local/")
        assert visitor.axe() == []


def test_inline_scripts_are_blocked(node: PenstockProcess, visitor: Visitor) -> None:
    with ConsoleProcess(node.bootstrap) as console:
        page = visitor.open(console.page())
        page.get_by_role("heading", name="Overview").wait_for()
        blocked = page.evaluate(
            """() => {
                const script = document.createElement("script");
                try {
                    script.textContent = "window.hacked = true";
                    document.body.append(script);
                } catch (error) { return error.name; }
                return window.hacked ?? null;
            }"""
        )
        assert blocked in ("TypeError", None)
        assert page.evaluate("window.hacked") is None
        visitor.errors.clear()  # The browser reports what the policy has blocked, as it should.
