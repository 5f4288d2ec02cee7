"""A node under systemd: its notifications, and the unit file."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT

UNIT = ROOT / "ops/systemd/penstock@.service"


def test_a_node_reports_its_start_its_life_and_its_stop(tmp_path: Path) -> None:
    name = f"@penstock-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind("\0" + name[1:])
        receiver.settimeout(60)
        process = subprocess.Popen(
            [sys.executable, "-m", "penstock.cli.main", "start", "--data", "data", "--port", "0"],
            cwd=tmp_path,
            env={**os.environ, "NOTIFY_SOCKET": name, "WATCHDOG_USEC": "400000"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert process.stdout is not None
            seen = [receiver.recv(1000)]
            while not seen[-1].startswith(b"READY=1"):
                seen.append(receiver.recv(1000))
            address = process.stdout.readline().split()[1]
            assert seen[-1] == f"READY=1\nSTATUS=listening on {address}".encode()
            assert b"STATUS=recovering logs and joining the metadata quorum" in seen
            while receiver.recv(1000) != b"WATCHDOG=1":
                pass
            process.send_signal(signal.SIGTERM)
            while not (last := receiver.recv(1000)).startswith(b"STOPPING=1"):
                assert last == b"WATCHDOG=1"
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.communicate()


def test_the_unit_waits_for_the_notification_and_watches_the_node() -> None:
    settings = re.findall(r"^(\w+)=(.*)$", UNIT.read_text(), re.MULTILINE)
    assert {("Type", "notify"), ("TimeoutStartSec", "infinity"), ("WatchdogSec", "60")} <= set(settings)
    assert ("Restart", "on-failure") in settings and ("KillSignal", "SIGTERM") in settings


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_unit_and_finds_it_well_protected(tmp_path: Path) -> None:
    copy = tmp_path / UNIT.name
    # The program need not be installed on this machine.
    copy.write_text(UNIT.read_text().replace("/opt/penstock/bin/penstock", "/bin/true"))
    verified = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, timeout=60)
    assert (verified.returncode, UNIT.name in verified.stderr) == (0, False), verified.stderr
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--threshold=20", str(copy)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "SYSTEMD_PAGER": ""},
    )
    if "unrecognized option" in rated.stderr:
        pytest.skip("systemd-analyze is too old to rate a unit file")
    assert rated.returncode == 0, rated.stdout[-500:]
