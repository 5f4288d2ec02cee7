"""Tests of the page that compares Penstock with Apache Kafka."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.bars import CEILING, FSYNC, KAFKA, OS
from benchmarks.peers_page import Page, Row, Section, number

RATE = Row("produce", "records/s", cost="CPU s/GB")
WAIT = Row("latency", "p99 ms", higher_is_better=False)
UNKNOWN = Row("cold read", "MB/s")
FIGURES = {
    ("produce", KAFKA): {"records/s": 1000.0, "CPU s/GB": 2.0},
    ("produce", OS): {"records/s": 2000.0, "CPU s/GB": 4.0},
    ("produce", FSYNC): {"records/s": 500.0, "CPU s/GB": 1.0},
    ("latency", KAFKA): {"p99 ms": 4.0},
    ("latency", OS): {"p99 ms": 2.0},
    ("latency", FSYNC): {"p99 ms": 4.1},
}
FACTS = {
    "date": "2026-01-31",
    "machine": "a machine",
    "peer": "Apache Kafka",
    "rounds": "2 rounds",
    "recovered": "1 GB",
}


@pytest.fixture
def page() -> Page:
    return Page([Section("All work", "About it.", (RATE, WAIT, UNKNOWN))], FIGURES, FACTS)


def test_a_ratio_above_one_is_better_whether_a_figure_should_be_high_or_low(page: Page) -> None:
    assert [page.ratio(RATE, OS), page.ratio(RATE, FSYNC)] == [2.0, 0.5]
    assert page.ratio(WAIT, OS) == 2.0
    assert page.ratio(RATE, OS, cost=True) == 0.5
    assert page.ratio(UNKNOWN, OS) is None


def test_rows_that_kafka_wins_are_listed_and_ties_are_not(page: Page) -> None:
    losses = page.text().partition("## Where Kafka is ahead\n")[2].split("\n")
    assert [line for line in losses if line] == [
        "- produce: Penstock (os) needs 2.00 times Kafka's CPU time.",
        "- produce: Penstock (fsync) reaches 0.50 of Kafka.",
    ]


def test_a_table_marks_what_kafka_wins_and_leaves_out_what_was_not_measured(page: Page) -> None:
    lines = page.text().split("\n")
    assert (
        "| produce | 1,000 records/s<br>2.00 CPU s/GB | 2,000 records/s<br>4.00 CPU s/GB "
        "| 500 records/s<br>1.00 CPU s/GB | 2.00 | **0.50** |"
    ) in lines
    assert not [line for line in lines if line.startswith("| cold read")]


def test_a_table_has_a_column_for_limits_if_any_was_measured() -> None:
    rows = Section("All work", "About it.", (RATE, WAIT))
    text = Page([rows], {**FIGURES, ("produce", CEILING): {"records/s": 3000.0}}, FACTS).text()
    lines = [line.split(" | ") for line in text.split("\n") if line.startswith("| ")]
    assert [line[-1] for line in lines] == ["limit |", "3,000 records/s |", "- |"]


def test_each_section_has_a_picture_with_a_bar_for_each_figure(page: Page, tmp_path: Path) -> None:
    page.write(tmp_path / "performance.md")
    (picture,) = (tmp_path / "images" / "performance").iterdir()
    assert f"(images/performance/{picture.name})" in (tmp_path / "performance.md").read_text()
    bars = [
        float(each.attrib["width"])
        for each in ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}rect")
        if each.attrib["height"] == "11"
    ]
    assert len(bars) == 4
    assert bars[0] == pytest.approx(bars[2]) == pytest.approx(4 * bars[1], rel=0.01)


@pytest.mark.parametrize(
    ("value", "name", "shown"),
    [
        (1234567.0, "records/s", "1,234,567 records/s"),
        (12.34, "MB", "12.3 MB"),
        (1.234, "s", "1.23 s"),
        (151.2, "p50_us", "151 us (p50)"),
        (3.0, "p99.9 ms", "3.00 ms (p99.9)"),
    ],
)
def test_figures_have_units_and_few_digits(value: float, name: str, shown: str) -> None:
    assert number(value, name) == shown
