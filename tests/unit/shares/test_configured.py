"""Settings of share groups, and how long computed ones are kept."""

import pytest

from penstock.config.settings import BrokerSettings
from penstock.metadata.image import GROUP, ConfigResource, Image
from penstock.shares import configured
from penstock.shares.configured import kept_settings


def test_settings_are_computed_again_when_the_configuration_or_the_metadata_changes() -> None:
    settings, image = BrokerSettings(), Image()
    settings_of = kept_settings(lambda: settings, lambda: image)
    before = settings_of("g")
    assert settings_of("g") is before
    image = Image(configs={ConfigResource(GROUP, "g"): {"share.isolation.level": "read_committed"}})
    assert settings_of("g").is_read_committed and not settings_of("other").is_read_committed
    settings = BrokerSettings({"group.share.record.lock.duration.ms": "20000"})
    assert settings_of("g").lock_duration_ms == 20_000 != before.lock_duration_ms


def test_the_settings_of_few_groups_are_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configured, "_SETTINGS_KEPT", 2)
    settings, image = BrokerSettings(), Image()
    settings_of = kept_settings(lambda: settings, lambda: image)
    first = settings_of("a")
    assert [settings_of(group) is first for group in ("a", "b", "a")] == [True, False, True]
    settings_of("c")
    assert settings_of("a") is not first
