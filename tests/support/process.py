"""Observations of a broker's process."""

from __future__ import annotations

from pathlib import Path

from penstock.testing.process import BrokerProcess


def memory_mb(broker: BrokerProcess) -> float:
    """Return the resident memory."""
    for line in Path(f"/proc/{broker.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmRSS in /proc")


def faults(broker: BrokerProcess) -> list[str]:
    """Return log lines that no input may cause."""
    lines = broker.log_path.read_text().splitlines()
    return [line for line in lines if "Traceback" in line or " ERROR " in line or " CRITICAL " in line]
