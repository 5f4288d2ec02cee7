"""Log directories that accept no writes: the text says whether space is missing."""

import pytest

from penstock.actions.cluster.log_dirs import ReadOnlyLogDir

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (ReadOnlyLogDir(1, "/data", 5 * MIB, None), "node 1: /data is cordoned"),
        (ReadOnlyLogDir(2, "/data", 900 * MIB, 16 * MIB), "disk error: /data of node 2 rejects writes"),
        (ReadOnlyLogDir(3, "/data", 5 * MIB, 16 * MIB), "disk full: /data of node 3 has 5.0 MiB free and needs"),
    ],
)
def test_the_reason_is_part_of_the_text(found: ReadOnlyLogDir, text: str) -> None:
    assert str(found).startswith(text)
    assert found.is_full == ("disk full" in text)
