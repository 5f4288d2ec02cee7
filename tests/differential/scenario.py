"""The registry of scenarios. To add one, write a decorated function in a file of `catalogue/`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from tests.differential.session import Session

Scenario = Callable[[Session], None]
PLAINTEXT = "PLAINTEXT"
_SCENARIOS: dict[str, Scenario] = {}
_LISTENERS: dict[Scenario, str] = {}


def scenario(function: Scenario) -> Scenario:
    """Register a scenario under its function's name."""
    name = function.__name__.replace("_", " ")
    assert name not in _SCENARIOS, f"there are two scenarios called {name!r}"
    _SCENARIOS[name] = function
    return function


def on_listener(name: str) -> Callable[[Scenario], Scenario]:
    """Run a scenario on another listener than the plain one (secured.py lists them)."""

    def mark(function: Scenario) -> Scenario:
        _LISTENERS[function] = name
        return function

    return mark


def listener_of(function: Scenario) -> str:
    return _LISTENERS.get(function, PLAINTEXT)


def all_scenarios() -> dict[str, Scenario]:
    """Return every scenario of the catalogue, by name."""
    from tests.differential import catalogue

    for module in pkgutil.iter_modules(catalogue.__path__):
        importlib.import_module(f"{catalogue.__name__}.{module.name}")
    return dict(_SCENARIOS)
