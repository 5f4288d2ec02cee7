"""The settings that transactions use, as one immutable value that is replaced when they change."""

from dataclasses import dataclass

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS

VERSION_FLEXIBLE = 1
"""From this `transaction.version` on records have the flexible encoding."""
VERSION_EPOCH_BUMP = 2
"""From this version on the end of each transaction raises the producer's epoch (KIP-890)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    timeout_ms_max: int = 15 * MINUTE_MS
    transactional_id_expiration_ms: int = 7 * DAY_MS
    expiration_check_interval_ms: int = 60 * MINUTE_MS
    version: int = VERSION_EPOCH_BUMP
    """The finalised level of the feature `transaction.version`."""
