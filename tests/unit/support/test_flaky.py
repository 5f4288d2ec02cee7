"""Tests of how `make flaky` classifies tests."""

from pathlib import Path

from tests.flaky import CONDITIONS, Round, read_outcomes, unsteady_tests


def rounds(*outcomes: dict[str, str]) -> list[Round]:
    return [Round(number, number, CONDITIONS[0], each, 0) for number, each in enumerate(outcomes)]


def test_a_test_that_failed_is_missing_or_was_skipped_in_some_rounds_is_unsteady() -> None:
    steady = {"steady": "passed", "never here": "skipped"}
    done = rounds(
        {**steady, "fails": "passed", "is missing": "passed", "is skipped": "passed"},
        {**steady, "fails": "failed", "is skipped": "skipped"},
        {**steady, "fails": "failed", "is missing": "passed", "is skipped": "passed"},
    )
    numbers = {test: [one.number for one in found] for test, found in unsteady_tests(done).items()}
    assert numbers == {"fails": [1, 2], "is missing": [1], "is skipped": [1]}


def test_a_test_that_fails_in_its_teardown_has_failed(tmp_path: Path) -> None:
    path = tmp_path / "outcomes"
    path.write_text('["a", "passed"]\n["b", "passed"]\n["b", "failed"]\n["c", "failed"]\n["c", "passed"]\n')
    assert read_outcomes(path) == {"a": "passed", "b": "failed", "c": "failed"}
