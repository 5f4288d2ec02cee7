"""Fixtures of the console's browser tests: one browser for the whole run, a sample cluster, its console, and a visitor.

Without Chromium, `browser` skips a test before anything else is started for it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.console import sample
from tests.console.browser import Visitor, chromium
from tests.console.console_process import ConsoleProcess
from tests.support.penstock_process import PenstockProcess
from tests.support.ports import HOST, free_ports
from tests.support.sharing import Sharing


@dataclass(frozen=True)
class Sample:
    """A filled cluster of one node, and its console."""

    bootstrap: str
    console: ConsoleProcess


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@contextmanager
def sample_with_console() -> Iterator[Sample]:
    (metrics_port,) = free_ports(1)
    folder = Path(tempfile.mkdtemp(prefix="penstock-pipeline-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        node = stack.enter_context(PenstockProcess(properties={"metrics.listener": f"http://{HOST}:{metrics_port}"}))
        sample.fill(node.bootstrap)
        stack.enter_context(sample.queue_member(node.bootstrap))
        pipeline = sample.pipeline(folder / "sales")
        console = stack.enter_context(
            ConsoleProcess(node.bootstrap, "--pipeline", str(pipeline), "--mask", "payments:$.customer")
        )
        yield Sample(node.bootstrap, console)


@pytest.fixture
def world(sharing: Sharing) -> Sample:
    return sharing.of(sample_with_console)


@pytest.fixture
def visitor(browser: Any, world: Sample) -> Iterator[Visitor]:
    made = Visitor(browser)
    yield made
    made.close()
    assert made.errors == []
    assert made.foreign_requests() == []
