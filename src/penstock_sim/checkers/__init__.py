"""The invariants of docs/reliability.md as pure functions from a history to its violations.

One function per invariant, named by its number. `CHECKERS` has all of them; tests/unit/sim/ shows that each fails on
a bad history.
"""

from collections.abc import Callable, Iterator

from penstock_sim.checkers import epochs, groups, log, shares, tables, transactions
from penstock_sim.history import History

Checker = Callable[[History], Iterator[str]]

CHECKERS: dict[str, Checker] = {
    name: function
    for module in (log, groups, transactions, epochs, tables, shares)
    for name, function in vars(module).items()
    if name.startswith("inv_")
}


def check(history: History) -> list[str]:
    """Return all violations in the history, each starting with the invariant's name."""
    return [f"{name}: {problem}" for name, function in CHECKERS.items() for problem in function(history)]
