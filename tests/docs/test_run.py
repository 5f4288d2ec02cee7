"""Runs the blocks of each page from top to bottom, as a reader would."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, blocks, written_pages
from tests.docs.shell import Shell

# These start Spark or the development tools, and have separate tests.
RUN_ELSEWHERE = {
    "docs/spark-tutorial.md": "tests/spark/test_tutorial.py",
    "docs/spark.md": "tests/spark/test_page.py",
}
QUICK = {"docs/guides/monitoring.md"}


def pages_to_run() -> list[str]:
    return [
        page
        for page in written_pages()
        if page not in RUN_ELSEWHERE
        and any(each.language in ("console", "python") and "not run" not in each.marks for each in blocks(page))
    ]


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=() if page in QUICK else pytest.mark.slow) for page in pages_to_run()]
)
def test_the_blocks_of_a_page_work(page: str, tmp_path: Path) -> None:
    with Shell(tmp_path) as shell:
        for block in blocks(page):
            if block.language in ("console", "python") and "not run" not in block.marks:
                shell.run(block)


def test_pages_with_a_separate_test_are_run_by_it() -> None:
    for page, test in RUN_ELSEWHERE.items():
        assert Path(page).name in (ROOT / test).read_text(), f"{test} does not mention {page}"
