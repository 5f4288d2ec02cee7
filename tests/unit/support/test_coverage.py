from typing import Any

from tests.coverage import FLOORS, OVERALL, below_floor, formatted, table


def figures(**packages: tuple[int, int]) -> Any:
    """Return the output of `coverage json`, with (branches, covered) of one file in each package of penstock."""
    return {
        "files": {
            f"src/penstock/{name}/module.py": {
                "summary": {
                    "num_branches": branches,
                    "covered_branches": covered,
                    "num_statements": 10,
                    "covered_lines": 10,
                }
            }
            for name, (branches, covered) in packages.items()
        }
    }


GOOD = {name.removeprefix("penstock/"): (100, 95) for name in FLOORS if name != OVERALL}


def test_coverage_at_the_minimum_passes() -> None:
    assert below_floor(table(figures(**GOOD))) == []


def test_each_package_and_all_of_src_have_a_minimum() -> None:
    rows = table(figures(**GOOD | {"storage": (100, 94), "cli": (1000, 800)}))
    assert below_floor(rows) == ["penstock/storage", OVERALL]


def test_a_package_without_figures_is_below_its_minimum() -> None:
    rest = {name: counts for name, counts in GOOD.items() if name != "raft"}
    assert below_floor(table(figures(**rest))) == ["penstock/raft"]


def test_the_table_names_each_package_worst_first() -> None:
    lines = formatted(table(figures(storage=(100, 95), cli=(10, 5), wire=(0, 0)))).splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["penstock/cli", "penstock/storage", "penstock/wire"]
    assert lines[4].startswith(OVERALL)
