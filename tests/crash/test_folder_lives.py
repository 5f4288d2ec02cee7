"""Test of some lives of data directories; `make crash LIVES=20000` runs a campaign."""

import os

import pytest

from tests.crash.folder_lives import live

pytestmark = pytest.mark.usefixtures("small_size_max")

LIVES = int(os.environ.get("PENSTOCK_FOLDER_LIVES") or 200)
PIECES = max(4, LIVES // 500)

# Lives that failed once, and why.
ONCE_ODD = {
    56: "a closed segment below a truncation was never synced",
    404: "the log start of a deleted topic was inherited by a new one of the same name",
    440: "so was its high watermark, which reappeared after a power loss",
    490: "the directory of a deleted topic without a topic id was reused with its records",
    936: "segments that retention had renamed, some of them back under their names, looked like a gap",
    1186: "a log start that was being written survived its topic",
    3324: "an old segment after the restart offset of a log was treated as part of it",
    3728: "a high watermark from before a power loss made a log look damaged after a kill",
}


@pytest.mark.parametrize("piece", range(PIECES))
def test_every_start_finds_all_acknowledged_records(piece: int) -> None:
    odd = [found for seed in range(1 + piece, LIVES + 1, PIECES) if (found := live(seed)) is not None]
    assert not odd, "\n".join(f"seed {each.seed}: {each.what}" for each in odd)


@pytest.mark.parametrize("seed", ONCE_ODD)
def test_a_life_that_failed_once_passes(seed: int) -> None:
    found = live(seed)
    assert found is None, f"{found.what}\n" + "\n".join(found.story)
