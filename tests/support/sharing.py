"""A pytest plugin for objects that the tests of a module share, and that are replaced after a failed test.

    @pytest.fixture
    def cluster(sharing: Sharing) -> PenstockCluster:
        return sharing.of(three_nodes)

`three_nodes()` returns a context manager. It is entered for the first test of the module that uses it, and exited after
the last one. After a failed test it is exited immediately, because its state is unknown: the next test gets a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any, TypeVar

import pytest

from tests.support.penstock_cluster import PenstockCluster

T = TypeVar("T")
_has_failed: pytest.StashKey[bool] = pytest.StashKey()


class Sharing:
    def __init__(self) -> None:
        self._running = ExitStack()
        self._kept: dict[Callable[[], Any], Any] = {}

    def of(self, make: Callable[[], AbstractContextManager[T]]) -> T:
        """Return the object that `make` creates, once for all tests that use the same function."""
        if make not in self._kept:
            self._kept[make] = self._running.enter_context(make())
        kept: T = self._kept[make]
        return kept

    def discard(self) -> None:
        self._kept.clear()
        self._running.close()


@pytest.fixture(scope="module")
def _shared_by_module() -> Iterator[Sharing]:
    made = Sharing()
    yield made
    made.discard()


@pytest.fixture
def sharing(request: pytest.FixtureRequest, _shared_by_module: Sharing) -> Iterator[Sharing]:
    yield _shared_by_module
    if request.node.stash.get(_has_failed, False):
        _shared_by_module.discard()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[_has_failed] = True
        _add_logs(item, report)
    return report


def _add_logs(item: pytest.Item, report: pytest.TestReport) -> None:
    """Add the nodes' output to the report of a failed test."""
    found = [getattr(value, "cluster", value) for value in getattr(item, "funcargs", {}).values()]
    for cluster in {id(each): each for each in found if isinstance(each, PenstockCluster)}.values():
        report.sections.extend(cluster.logs().items())
