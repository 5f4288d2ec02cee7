"""The settings that groups use, as one immutable value that is replaced when the configuration changes."""

from dataclasses import dataclass

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    initial_rebalance_delay_ms: int = 3_000
    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 30 * MINUTE_MS
    size_max: int = 1_000
    metadata_size_max: int = 1_048_588
    """The largest metadata that fits into the group's record."""
    offset_metadata_size_max: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 60 * MINUTE_MS
    offsets_retention_check_interval_ms: int = 10 * MINUTE_MS
    new_member_join_timeout_ms: int = 5 * MINUTE_MS
    """How long a JoinGroup without a member id may wait: such a member cannot send heartbeats."""
