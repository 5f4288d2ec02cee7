import os
import struct
from pathlib import Path

import pytest

from penstock.actions.doctor import api_versions_request, check_clock, check_data, parse_api_versions
from penstock.ports.real.folder_lock import lock_folder
from penstock.wire.frame import parse_header


def test_the_broker_parses_the_request() -> None:
    request = api_versions_request()
    header = parse_header(memoryview(request)[4:])
    assert struct.unpack(">i", request[:4]) == (len(request) - 4,)
    assert (header.api_key, header.version, header.correlation_id, header.client_id) == (18, 0, 1, "penstock-doctor")


def test_version_ranges_are_parsed() -> None:
    answer = struct.pack(">ihi", 1, 0, 2) + struct.pack(">hhh", 0, 3, 13) + struct.pack(">hhh", 1, 4, 18)
    assert parse_api_versions(answer) == {0: (3, 13), 1: (4, 18)}


@pytest.mark.parametrize(
    "answer",
    [
        struct.pack(">ihi", 2, 0, 0),
        struct.pack(">ihi", 1, 35, 0),
        struct.pack(">ihi", 1, 0, 2**31 - 1),
        struct.pack(">ihi", 1, 0, -1),
    ],
)
def test_an_invalid_response_is_rejected(answer: bytes) -> None:
    with pytest.raises(ValueError, match="not an ApiVersions response"):
        parse_api_versions(answer)


def test_a_data_folder_that_does_not_exist_is_a_warning(tmp_path: Path) -> None:
    (check,) = check_data(tmp_path / "missing")
    assert (check.check, check.state) == ("data", "warning")
    assert (
        check.found.endswith("missing does not exist") and "A broker creates it at its first start" in check.next_step
    )


def test_the_owner_and_the_lock_of_a_data_folder_are_shown(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=abc\nnode.id=7\n")
    found = {check.check: check for check in check_data(tmp_path)}
    assert found["identity"].found == "cluster abc, node 7"
    assert found["lock"].found == "not locked: no broker uses the folder"
    lock = lock_folder(str(tmp_path))
    try:
        found = {check.check: check for check in check_data(tmp_path)}
        assert found["lock"].found == "locked by a running broker"
    finally:
        lock.release()


@pytest.mark.parametrize(
    ("content", "state", "text"),
    [
        (None, "ok", "not used by a node yet"),
        (b"\xff\xfe", "wrong", "cannot read meta.properties"),
        (b"a=\\u12", "wrong", "cannot read meta.properties"),
    ],
)
def test_a_damaged_identity_is_a_problem(tmp_path: Path, content: bytes | None, state: str, text: str) -> None:
    if content is not None:
        (tmp_path / "meta.properties").write_bytes(content)
    check = next(check for check in check_data(tmp_path) if check.check == "identity")
    assert check.state == state and text in check.found


def test_a_clock_behind_the_data_folder_is_a_warning(tmp_path: Path) -> None:
    segment = tmp_path / "orders-0" / "00000000000000000000.log"
    segment.parent.mkdir()
    segment.touch()
    assert check_clock(tmp_path).state == "ok"
    later = segment.stat().st_mtime + 3600
    os.utime(segment, (later, later))
    check = check_clock(tmp_path)
    assert check.state == "warning" and "but the data folder was modified 3" in check.found
    assert "Set the clock (NTP)" in check.next_step


def test_a_clock_in_the_past_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.actions.doctor.CLOCK_MIN", 1e12)
    check = check_clock(None)
    assert check.state == "wrong" and check.found.endswith("is in the past")
