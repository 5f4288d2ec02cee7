"""The settings of one share group, as one immutable value that is replaced when the configuration changes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSettings:
    lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    record_locks_max: int = 2_000
    auto_offset_reset: str = "latest"
    """`latest`, `earliest`, or `by_duration:` and an ISO 8601 duration."""
    is_read_committed: bool = False
    is_renew_enabled: bool = True
    retry_delay_ms: int = 0
    """How long a released record is held back; 0 makes it available immediately."""
    retry_delay_factor: float = 2.0
    retry_delay_ms_max: int = 15 * 60_000
    counts_unfinished: bool = False
    """The window counts only unfinished records, so that one stuck record does not stop its partition."""
    dead_letter_topic: str = ""
    """Where the dead-letter records are written; empty for none."""
    copies_dead_letters: bool = False
    """Dead-letter records have the key, value and headers of their source."""

    @property
    def has_dead_letters(self) -> bool:
        return bool(self.dead_letter_topic)

    def retry_delay(self, delivery_count: int) -> int:
        """Return the delay in milliseconds before a record is delivered again."""
        if not self.retry_delay_ms:
            return 0
        exponent = min(max(delivery_count - 1, 0), 64)
        return int(min(self.retry_delay_ms * self.retry_delay_factor**exponent, self.retry_delay_ms_max))
