"""The invariants of docs/reliability.md as pure functions: a history in, what it breaks out.

One function for each invariant, named by its number. `CHECKERS` is all of them; each is shown to
fail on a bad history by tests/unit/sim/.
"""

from collections.abc import Callable, Iterator

from penstock_sim.checkers import epochs, groups, log, tables, transactions
from penstock_sim.history import History

Checker = Callable[[History], Iterator[str]]

CHECKERS: dict[str, Checker] = {
    name: function
    for module in (log, groups, transactions, epochs, tables)
    for name, function in vars(module).items()
    if name.startswith("inv_")
}


def check(history: History) -> list[str]:
    """Everything that the history breaks, each with the invariant's name first."""
    return [f"{name}: {problem}" for name, function in CHECKERS.items() for problem in function(history)]
