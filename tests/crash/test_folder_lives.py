"""A slice of the lives of whole data folders; `make crash LIVES=20000` runs a campaign."""

import os

import pytest

from tests.crash.folder_lives import live

LIVES = int(os.environ.get("PENSTOCK_FOLDER_LIVES") or 200)
PIECES = max(4, LIVES // 500)

# Lives that were odd once, and why.
ONCE_ODD = {
    56: "a closed segment below a cut was never synced",
    404: "the log start of a deleted topic was given to a new one of the same name",
    440: "so was its high watermark, which came back with a power loss",
    490: "the folder of a deleted topic, without its topic id, was taken with its records",
    936: "segments that retention had renamed, some of them back under their names, looked like a gap",
    1186: "a log start that was being written survived its topic",
    3324: "an old segment behind the offset at which a log restarts was taken for part of it",
    3728: "a mark from before a power loss made a log damaged after a kill",
}


@pytest.mark.parametrize("piece", range(PIECES))
def test_every_start_finds_what_clients_were_told(piece: int) -> None:
    odd = [found for seed in range(1 + piece, LIVES + 1, PIECES) if (found := live(seed)) is not None]
    assert not odd, "\n".join(f"seed {each.seed}: {each.what}" for each in odd)


@pytest.mark.parametrize("seed", ONCE_ODD)
def test_a_life_that_was_odd_once_is_not_any_more(seed: int) -> None:
    found = live(seed)
    assert found is None, f"{found.what}\n" + "\n".join(found.story)
