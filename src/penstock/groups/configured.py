"""Group settings from the broker's configuration and the group's own (KIP-848). Pure."""

from collections.abc import Mapping

from penstock.config.group_values import bounded_value
from penstock.config.settings import BrokerSettings
from penstock.groups.consumer.commands import ConsumerSettings, MigrationPolicy
from penstock.groups.settings import MINUTE_MS, GroupSettings
from penstock.groups.share.commands import ShareGroupSettings


def group_settings(broker: BrokerSettings) -> GroupSettings:
    return GroupSettings(
        initial_rebalance_delay_ms=broker.integer("group.initial.rebalance.delay.ms"),
        session_timeout_ms_min=broker.integer("group.min.session.timeout.ms"),
        session_timeout_ms_max=broker.integer("group.max.session.timeout.ms"),
        size_max=broker.integer("group.max.size"),
        metadata_size_max=broker.integer("message.max.bytes"),
        offset_metadata_size_max=broker.integer("offset.metadata.max.bytes"),
        offsets_retention_ms=broker.integer("offsets.retention.minutes") * MINUTE_MS,
        offsets_retention_check_interval_ms=broker.integer("offsets.retention.check.interval.ms"),
    )


def consumer_settings(broker: BrokerSettings, own: Mapping[str, str]) -> ConsumerSettings:
    """Return the settings of one group: its own where set, the broker's otherwise."""
    return ConsumerSettings(
        assignors=broker.words("group.consumer.assignors"),
        session_timeout_ms=bounded_value(broker, own, "consumer.session.timeout.ms"),
        heartbeat_interval_ms=bounded_value(broker, own, "consumer.heartbeat.interval.ms"),
        assignment_interval_ms=bounded_value(broker, own, "consumer.assignment.interval.ms"),
        size_max=broker.integer("group.consumer.max.size"),
        regex_refresh_interval_ms=broker.integer("group.consumer.regex.refresh.interval.ms"),
        migration_policy=MigrationPolicy(broker.text("group.consumer.migration.policy").lower()),
        classic_size_max=broker.integer("group.max.size"),
    )


def share_group_settings(broker: BrokerSettings, own: Mapping[str, str]) -> ShareGroupSettings:
    """Return the settings of one share group: its own where set, the broker's otherwise."""
    return ShareGroupSettings(
        session_timeout_ms=bounded_value(broker, own, "share.session.timeout.ms"),
        heartbeat_interval_ms=bounded_value(broker, own, "share.heartbeat.interval.ms"),
        assignment_interval_ms=bounded_value(broker, own, "share.assignment.interval.ms"),
        size_max=broker.integer("group.share.max.size"),
    )
