"""A pytest plugin that runs the tests in random order, and assigns whole modules to parallel workers.

The order depends on a seed that is printed at the start; `--seed N` repeats it, together with the examples of
Hypothesis. Modules are shuffled, and the tests within each of them: the tests of a module may share a cluster. Modules
that start processes come first because they take longest, so that all workers finish together. Those that share a Java
process go to one worker, before all others.
"""

from __future__ import annotations

from pathlib import PurePath
from random import Random, SystemRandom

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

# Their tests share a Java process, which takes long to start.
_TOGETHER = "tests/compat/java"
# Their modules are short, and their tests share nothing.
_LAST = ("unit", "oracle", "sim")
# Their tests are long and independent.
_SPLIT = ("tests/sim/", "tests/crash/")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, help="the seed of an earlier run, to repeat its order and its examples")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    workerinput = getattr(config, "workerinput", None)
    if workerinput is not None:
        config.option.seed = workerinput["seed"]
    elif config.option.seed is None:
        config.option.seed = SystemRandom().randrange(1_000_000)
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(config.option.seed)


def pytest_configure_node(node: WorkerController) -> None:
    """Pass the seed of the main process to a worker."""
    node.workerinput["seed"] = node.config.option.seed


def pytest_report_header(config: pytest.Config) -> str:
    return f"order: --seed {config.option.seed}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items[:] = shuffled(items, Random(config.option.seed))


def shuffled(items: list[pytest.Item], random: Random) -> list[pytest.Item]:
    """Order the items by nothing but their ids and the generator."""
    modules: dict[str, list[pytest.Item]] = {}
    for item in sorted(items, key=lambda item: item.nodeid):
        modules.setdefault(module_of(item.nodeid), []).append(item)
    order = list(modules)
    random.shuffle(order)
    order.sort(key=lambda module: (not module.startswith(_TOGETHER), part_of(module) in _LAST))
    for module in order:
        random.shuffle(modules[module])
    return [item for module in order for item in modules[module]]


def module_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def part_of(nodeid: str) -> str:
    """Return the directory below tests/ that a test is in."""
    parts = PurePath(module_of(nodeid)).parts
    return parts[1] if len(parts) > 2 else parts[0]


class ByModule(LoadScopeScheduling):  # type: ignore[misc]
    """A scheduler that keeps the tests of a module in one worker, because they may share fixtures."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(_TOGETHER):
            return _TOGETHER
        return nodeid if nodeid.startswith(_SPLIT) else module_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    config.option.loadscopereorder = False
    return ByModule(config, log)
