"""Checks that tests, metrics, planted bugs and packages named in the documentation exist."""

from __future__ import annotations

import re
import tomllib

from penstock.metrics.declared import DECLARED
from penstock_sim.ablations import BUGS
from tests.docs.markdown import ROOT, inline_code, pages, text_of, written_pages


def test_every_test_that_a_page_names_exists() -> None:
    defined = {
        name for path in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    for page in written_pages():
        named = {code for code in inline_code(page) if re.fullmatch(r"test_\w+", code)}
        assert named <= defined, f"{page} names tests that do not exist: {sorted(named - defined)}"


def test_every_metric_that_a_page_names_exists() -> None:
    declared = {one.name for one in DECLARED.values()}
    for page in written_pages():
        for code in inline_code(page):
            if re.fullmatch(r"penstock_\w+_(total|bytes|ms|only|connections|seconds_total)", code):
                assert code in declared, f"{page} names the metric {code}"


def test_the_table_of_planted_bugs_is_complete() -> None:
    text = text_of("docs/reliability.md")
    listed = re.findall(r"^\| `([a-z-]+)` \|", text[text.index("## Planted bugs") :], re.MULTILINE)
    assert sorted(listed) == sorted(BUGS)
    assert f"{len(BUGS)} bugs can be planted" in text


def test_the_table_of_layers_matches_the_linter() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["type"] == "layers")
    here = {path.stem for path in (ROOT / "src" / "penstock").iterdir()}
    expected = [[name for name in re.findall(r"\w+", layer) if name in here] for layer in layers]
    text = text_of("docs/internals/README.md")
    table = text[text.index("| layer, from the top") : text.index("Results travel up")]
    cells = [row.split("|")[1] for row in table.splitlines()[2:] if row.startswith("|")]
    rows = [re.findall(r"`(\w+?)(?:\.py)?`", cell) for cell in cells]
    assert rows == expected


def test_every_package_is_explained_to_contributors() -> None:
    packages = {path.parent.name for folder in ("src", "client/src") for path in (ROOT / folder).glob("*/__init__.py")}
    overview = text_of("docs/internals/README.md")
    assert {
        name for name in packages - {"penstock"} if f"`{name}`" not in overview.replace("src/", "").replace("/`", "`")
    } == set()
    parts = {path.parent.name for path in (ROOT / "src" / "penstock").glob("*/__init__.py")}
    table = text_of("CONTRIBUTING.md")
    assert {name for name in (*parts, "penstock_console", "penstock_sim") if f"{name}/`" not in table} == set()


def test_the_overview_of_the_internals_links_to_every_page() -> None:
    overview = text_of("docs/internals/README.md")
    for path in (ROOT / "docs" / "internals").glob("*.md"):
        assert path.name == "README.md" or f"]({path.name}" in overview, f"no link to {path.name}"


def test_the_site_lists_every_page() -> None:
    navigation = text_of("mkdocs.yml")
    for page in pages():
        if not re.fullmatch(r"docs/decisions/\d+.*|CODE_OF_CONDUCT.md", page):
            assert f": {page}\n" in navigation, f"mkdocs.yml has no entry for {page}"
