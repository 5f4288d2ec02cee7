"""Checks of the metric declarations, the generated page, and the dashboard and alerts that use them."""

import json
import re
from pathlib import Path

import pytest

from penstock.metrics.declared import DECLARED
from penstock.metrics.metrics import Metrics
from penstock.metrics.reference import render_reference
from penstock.metrics.values import Counter, Histogram

ROOT = Path(__file__).parents[3]
GIVEN_BY_PROMETHEUS = {"up"}
WORDS = {
    "and", "or", "unless", "by", "without", "on", "ignoring", "group_left", "group_right", "bool", "offset",
    "sum", "max", "min", "avg", "count", "rate", "increase", "delta", "histogram_quantile", "predict_linear",
    "min_over_time", "max_over_time", "label_values", "absent", "topk",
}  # fmt: skip


def names_in(expression: str) -> set[str]:
    """Return the metrics that an expression uses."""
    bare = re.sub(r'"[^"]*"', "", expression)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", bare)
    bare = re.sub(r"\b(by|without|on|ignoring)\s*\([^)]*\)", "", bare)
    if bare.startswith("label_values"):
        bare = re.sub(r",[^)]*\)", ")", bare)
    return set(re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]*", bare)) - WORDS


def dashboard() -> list[str]:
    found = json.loads((ROOT / "ops/grafana/penstock.json").read_text())
    variables = [one["query"] for one in found["templating"]["list"] if one["type"] == "query"]
    return variables + [target["expr"] for panel in found["panels"] for target in panel.get("targets", ())]


def alerts() -> list[str]:
    return re.findall(r"^ +expr: (.+)$", (ROOT / "ops/prometheus/alerts.yml").read_text(), re.MULTILINE)


@pytest.mark.parametrize("expressions", [dashboard(), alerts()], ids=["dashboard", "alerts"])
def test_every_metric_in_dashboards_and_alerts_is_declared(expressions: list[str]) -> None:
    series = {name for one in DECLARED.values() for name in one.series()} | GIVEN_BY_PROMETHEUS
    asked = set().union(*map(names_in, expressions))
    assert len(asked) > 10
    assert asked <= series, asked - series


def test_every_counter_is_incremented_somewhere() -> None:
    metrics = Metrics({})
    held = [name for name, value in vars(metrics).items() if isinstance(value, Counter | Histogram)]
    source = "".join(path.read_text() for path in (ROOT / "src/penstock").rglob("*.py"))
    assert len(held) > 5
    assert [name for name in held if not re.search(rf"metrics\.{name}\.(add|observe)\b", source)] == ["loop_lag"]
    # The event loop watchdog receives its histogram in its constructor.
    assert "metrics.loop_lag" in source


def test_every_alert_has_a_remedy() -> None:
    text = (ROOT / "ops/prometheus/alerts.yml").read_text()
    assert text.count("- alert:") == text.count("what_to_do:") == text.count("summary:") == len(alerts())


def test_names_follow_prometheus_conventions() -> None:
    for one in DECLARED.values():
        assert re.fullmatch(r"[a-z][a-z0-9_]*", one.name)
        assert one.name.endswith("_total") is (one.kind == "counter"), one.name
        assert one.doc.endswith("."), one.name


def test_the_reference_is_up_to_date() -> None:
    assert (ROOT / "docs/metrics.md").read_text() == render_reference()
