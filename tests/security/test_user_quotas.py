"""Quotas of authenticated users."""

from __future__ import annotations

import secrets
from pathlib import Path

from penstock.testing import Broker
from tests.support.command import penstock


def test_a_quota_applies_to_its_user_only(secured: Broker, tmp_path: Path) -> None:
    files = {}
    for name, password in (("alice", "wonderland"), ("bob", "builder")):
        files[name] = tmp_path / name
        files[name].write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username={name}\nsasl.password={password}\n"
        )

    def run(name: str, *words: str, given: str = "") -> str:
        done = penstock(*words, "--bootstrap", secured.bootstrap, "--command-config", str(files[name]), given=given)
        assert done.code == 0, done.err
        return done.out

    run("bob", "topic", "create", "limited")
    run("bob", "quota", "set", "--user", "alice", "producer_byte_rate=10000")
    try:
        throttle = secured.node.context.throttle
        # Random, because the command compresses what it sends.
        record = secrets.token_hex(10_000) + "\n"
        run("bob", "produce", "limited", given=record * 4)
        assert throttle.muted_count_total == 0
        run("alice", "produce", "limited", given=record * 4)
        assert throttle.muted_count_total > 0
    finally:
        run("bob", "quota", "remove", "--user", "alice")
