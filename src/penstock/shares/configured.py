"""Settings of share groups from the broker's configuration and the group's own. Pure."""

from collections.abc import Callable, Mapping
from typing import Final

from penstock.config.group_values import bounded_value, group_value
from penstock.config.settings import BrokerSettings
from penstock.controller.features import SHARE_VERSION
from penstock.metadata.image import GROUP, ConfigResource, Image
from penstock.shares.settings import ShareSettings
from penstock.shares.shard import ShareShardSettings

__all__ = ["SHARE_VERSION", "kept_settings", "shard_settings", "share_settings"]

_SETTINGS_KEPT: Final = 1_000
"""Clients may name any number of groups, with names of 32 KiB."""


def kept_settings(
    current_settings: Callable[[], BrokerSettings], image: Callable[[], Image]
) -> Callable[[str], ShareSettings]:
    """Return a function with the settings of a group, which every ShareFetch needs.

    They are computed again when the configuration or the metadata has changed.
    """
    known: dict[str, ShareSettings] = {}
    known_with: tuple[BrokerSettings, Image] | None = None

    def settings_of(group: str) -> ShareSettings:
        nonlocal known_with
        settings, current_image = current_settings(), image()
        if known_with is None or known_with[0] is not settings or known_with[1] is not current_image:
            known_with = settings, current_image
            known.clear()
        found = known.get(group)
        if found is None:
            if len(known) >= _SETTINGS_KEPT:
                known.clear()
            found = known[group] = share_settings(settings, current_image.config(ConfigResource(GROUP, group)))
        return found

    return settings_of


def share_settings(broker: BrokerSettings, own: Mapping[str, str]) -> ShareSettings:
    """Return the settings of one group: its own where set, the broker's otherwise."""
    return ShareSettings(
        lock_duration_ms=bounded_value(broker, own, "share.record.lock.duration.ms"),
        delivery_count_limit=bounded_value(broker, own, "share.delivery.count.limit"),
        record_locks_max=bounded_value(broker, own, "share.partition.max.record.locks"),
        auto_offset_reset=str(group_value(own, "share.auto.offset.reset")),
        is_read_committed=group_value(own, "share.isolation.level") == "read_committed",
        is_renew_enabled=bool(group_value(own, "share.renew.acknowledge.enable")),
        retry_delay_ms=_integer(own, "penstock.share.retry.delay.ms"),
        retry_delay_factor=_number(own, "penstock.share.retry.delay.factor"),
        retry_delay_ms_max=_integer(own, "penstock.share.retry.delay.max.ms"),
        counts_unfinished=bool(group_value(own, "penstock.share.window.unfinished")),
        dead_letter_topic=_dead_letter_topic(broker, own),
        copies_dead_letters=bool(group_value(own, "errors.deadletterqueue.copy.record.enable")),
    )


def _dead_letter_topic(broker: BrokerSettings, own: Mapping[str, str]) -> str:
    """Return the topic, unless its name lacks the prefix: a group must not make the broker write to any topic."""
    name = str(group_value(own, "errors.deadletterqueue.topic.name"))
    return name if name.startswith(broker.text("errors.deadletterqueue.topic.name.prefix")) else ""


def shard_settings(broker: BrokerSettings) -> ShareShardSettings:
    return ShareShardSettings(
        updates_per_snapshot=broker.integer("share.coordinator.snapshot.update.records.per.snapshot"),
        prune_interval_ms=broker.integer("share.coordinator.state.topic.prune.interval.ms"),
        idle_ms=broker.integer("share.coordinator.cold.partition.snapshot.interval.ms"),
    )


def _integer(own: Mapping[str, str], name: str) -> int:
    value = group_value(own, name)
    assert isinstance(value, int)
    return value


def _number(own: Mapping[str, str], name: str) -> float:
    value = group_value(own, name)
    assert isinstance(value, int | float)
    return float(value)
