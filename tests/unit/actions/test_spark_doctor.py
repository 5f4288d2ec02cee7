"""The check of the Python that Spark starts its workers with."""

import sys
from pathlib import Path

from penstock.actions.spark_doctor import check_worker_pythons


def python(folder: Path, script: str) -> Path:
    folder.mkdir()
    path = folder / "python3"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_a_python_without_the_packages_is_found_on_the_path(tmp_path: Path) -> None:
    wrong = python(tmp_path / "bin", "echo \"ModuleNotFoundError: No module named 'pyspark'\" >&2; exit 1")
    (check,) = check_worker_pythons({"PATH": str(wrong.parent)})
    assert check.state == "wrong"
    assert f"python3 from the PATH is {wrong}" in check.found and "DATA_SOURCE_NOT_FOUND" in check.found
    assert "No module named 'pyspark'" in check.found
    assert f"PYSPARK_PYTHON={sys.executable}" in check.next_step and "import penstock_spark" in check.next_step


def test_the_variable_takes_precedence_over_the_path(tmp_path: Path) -> None:
    wrong = python(tmp_path / "wrong", "exit 1")
    right = python(tmp_path / "right", f"echo {sys.executable}")
    (check,) = check_worker_pythons({"PATH": str(wrong.parent), "PYSPARK_PYTHON": str(right)})
    assert (check.state, check.found) == ("ok", f"PYSPARK_PYTHON={right} is {sys.executable}")


def test_a_missing_python_is_reported(tmp_path: Path) -> None:
    (check,) = check_worker_pythons({"PATH": str(tmp_path), "PYSPARK_PYTHON": "python9"})
    assert (check.state, check.found) == ("wrong", "PYSPARK_PYTHON=python9 does not exist")


def test_the_python_that_looks_for_data_sources_is_checked_too(tmp_path: Path) -> None:
    notebook = python(tmp_path / "notebook", "echo 'usage: jupyter' >&2; exit 1")
    right = python(tmp_path / "right", f"echo {sys.executable}")
    environment = {"PATH": str(right.parent), "PYSPARK_PYTHON": str(right), "PYSPARK_DRIVER_PYTHON": str(notebook)}
    workers, lookup = check_worker_pythons(environment)
    assert workers.state == "ok"
    assert lookup.state == "wrong" and f"PYSPARK_DRIVER_PYTHON={notebook}" in lookup.found
    assert lookup.next_step == f"Set PYSPARK_DRIVER_PYTHON={sys.executable}."
