"""A pytest plugin that fails the test that leaks, not the one during which the garbage collector runs.

After a test that leaves a file descriptor open, and after the last test of each module, garbage is collected. A socket,
file, event loop or child process that is collected while open raises a ResourceWarning, and a coroutine that was never
awaited a RuntimeWarning. Both are errors in this suite (`filterwarnings` in pyproject.toml), and an error in a
destructor reaches `sys.unraisablehook`, where this plugin records it. Objects of module and session fixtures are not
garbage, so they may stay open. Run with `-X tracemalloc=20` to see where the leaked object was created.
"""

from __future__ import annotations

import gc
import os
import sys
import tracemalloc
from collections import Counter
from collections.abc import Generator

import pytest

_FDS = "/proc/self/fd"
_open_before: pytest.StashKey[Counter[str]] = pytest.StashKey()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_open_before] = _open_files()


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    yield
    is_last_of_module = nextitem is None or nextitem.path != item.path
    if not is_last_of_module and not _open_files() - item.stash[_open_before]:
        return
    leaks = _collect()
    if is_last_of_module:
        # Objects that are alive now mostly live until the end. Freezing them makes later collections cheaper.
        gc.freeze()
    if leaks:
        pytest.fail("the test left resources open:\n" + "\n".join(leaks), pytrace=False)


def _open_files() -> Counter[str]:
    """Return what the open file descriptors refer to. Without /proc, every test counts as having left some open."""
    found: Counter[str] = Counter()
    try:
        numbers = os.listdir(_FDS)
    except OSError:
        return Counter([str(id(found))])
    for number in numbers:
        try:
            found[os.readlink(f"{_FDS}/{number}")] += 1
        except OSError:  # the descriptor of the listing itself, or one that another thread closed meanwhile
            continue
    return found


def _collect() -> list[str]:
    """Collect garbage; return the errors of destructors."""
    # The last failure keeps its frames alive, and with them everything that the test opened.
    for name in ("last_exc", "last_type", "last_value", "last_traceback"):
        if hasattr(sys, name):
            delattr(sys, name)
    found: list[str] = []
    before = sys.unraisablehook
    sys.unraisablehook = lambda error: found.append(_described(error))
    try:
        gc.collect()
    finally:
        sys.unraisablehook = before
    return found


def _described(error: sys.UnraisableHookArgs) -> str:
    origin = tracemalloc.get_object_traceback(error.object) if tracemalloc.is_tracing() else None
    return "\n".join([f"{error.exc_type.__name__}: {error.exc_value}", *(origin.format() if origin else ())])
