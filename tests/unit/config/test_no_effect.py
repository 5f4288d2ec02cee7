"""Checks that an option is marked as having no effect if and only if no code reads it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.config.broker import BROKER
from penstock.config.describe import describe_broker
from penstock.config.group import CLIENT_METRICS, GROUP
from penstock.config.no_effect import documentation, why_without_effect
from penstock.config.option import Option
from penstock.config.reference import page
from penstock.config.settings import BrokerSettings
from penstock.config.topic import TOPIC

SOURCE = Path(__file__).parents[3] / "src" / "penstock"

# Options read under a composed name, or within config/ itself: the file and the code that reads them.
READ_ELSEWHERE = {
    "broker.id": ("config/settings.py", '("node.id", "broker.id")'),
    "controller.quorum.election.backoff.max.ms": ("metadata/opening.py", 'seconds("election.backoff.max")'),
    "controller.quorum.election.timeout.ms": ("metadata/opening.py", 'seconds("election.timeout")'),
    "controller.quorum.fetch.timeout.ms": ("metadata/opening.py", 'seconds("fetch.timeout")'),
    "controller.quorum.retry.backoff.ms": ("metadata/opening.py", 'seconds("retry.backoff")'),
    "follower.replication.throttled.rate": ("replication/throttle.py", '{self._side}.replication.throttled.rate"'),
    "leader.replication.throttled.rate": ("replication/throttle.py", '{self._side}.replication.throttled.rate"'),
    "listener.security.protocol.map": ("config/listeners.py", 'settings["listener.security.protocol.map"]'),
    "node.listener.names": ("config/listeners.py", 'settings["node.listener.names"]'),
    "ssl.client.auth": ("config/listeners.py", 'self.values["ssl.client.auth"]'),
    "log.format": ("cli/start.py", '"log.format"'),
    "sasl.scram.unknown.users.secret": ("node_security.py", "self._settings[UNKNOWN_USERS_SECRET]"),
    "security.inter.broker.protocol": ("config/listeners.py", 'settings["security.inter.broker.protocol"]'),
    **{
        f"group.consumer.{bound}{rest}": ("groups/configured.py", f'bounded_value(broker, own, "consumer.{rest}")')
        for bound in ("", "min.", "max.")
        for rest in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
    },
    **{
        f"group.share.{bound}{rest}": (file, f'bounded_value(broker, own, "share.{rest}")')
        for bound in ("", "min.", "max.")
        for file, rests in (
            ("groups/configured.py", ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")),
            (
                "shares/configured.py",
                ("record.lock.duration.ms", "delivery.count.limit", "partition.max.record.locks"),
            ),
        )
        for rest in rests
    },
    "cleanup.policy": ("config/settings.py", '"compact" in self.cleanup_policy'),
    "internal.segment.bytes": ("config/settings.py", 'named.pop("internal_segment_bytes")'),
    "remote.storage.enable": ("config/settings.py", 'values["remote.storage.enable"]'),
}


@pytest.fixture(scope="module")
def sources() -> dict[str, str]:
    files = ((path.relative_to(SOURCE).as_posix(), path) for path in SOURCE.rglob("*.py"))
    # The test kit sets options and the command line displays and sets them; neither is an effect.
    readers = {name: path for name, path in files if not name.startswith(("config/", "cli/", "testing/"))}
    return {name: path.read_text() for name, path in readers.items()}


def is_read(name: str, topic: str | None, sources: dict[str, str]) -> bool:
    if name in READ_ELSEWHERE or topic in READ_ELSEWHERE:
        file, words = READ_ELSEWHERE.get(name) or READ_ELSEWHERE[str(topic)]
        assert words in (SOURCE / file).read_text(), f"{name} is no longer read where this test says"
        return True
    if topic is not None:
        field = re.compile(rf"\.{topic.replace('.', '_')}\b")
        return any(field.search(text) for text in sources.values())
    stands_in = [option for option in BROKER.values() if name in option.fallbacks]
    if stands_in:
        return all(is_read(option.name, option.topic, sources) for option in stands_in)
    return any(f'"{name}"' in text for text in sources.values())


def every_option() -> Iterator[Option]:
    yield from {option.name: option for table in (BROKER, TOPIC, GROUP) for option in table.values()}.values()


def test_an_option_is_read_by_the_code_or_is_marked_as_having_no_effect(sources: dict[str, str]) -> None:
    wrong = [
        option.name
        for option in every_option()
        if is_read(option.name, option.topic, sources) is (why_without_effect(option.name) is not None)
    ]
    assert not wrong, "these claim an effect but are not read, or are read but marked as having no effect"


def test_subscriptions_of_client_metrics_have_no_effect() -> None:
    assert all(why_without_effect(name) for name in CLIENT_METRICS)


def test_the_reference_page_and_describe_configs_mark_options_without_effect() -> None:
    assert documentation(BROKER["log.preallocate"]).startswith("No effect: segments grow as they are")
    line = next(line for line in page().splitlines() if line.startswith("| `preallocate` |"))
    assert "**No effect**: segments grow" in line
    described = {each.name: each for each in describe_broker(BrokerSettings())}
    assert described["num.io.threads"].doc.startswith("No effect: ")
    assert not described["num.partitions"].doc.startswith("No effect")
