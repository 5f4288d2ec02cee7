"""The errors of the client. Each message says what to do next.

`PenstockClientError` is what users see in Spark's error. `BrokerError` has an error code of the protocol and says
whether a retry may help. Only the codes that this client can receive are listed, under Kafka's names.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

OFFSET_OUT_OF_RANGE: Final = 1
UNKNOWN_TOPIC: Final = 3
MESSAGE_TOO_LARGE: Final = 10
TOPIC_EXISTS: Final = 36
INVALID_PRODUCER_EPOCH: Final = 47
INVALID_TXN_STATE: Final = 48
INVALID_PRODUCER_ID_MAPPING: Final = 49
INVALID_TRANSACTION_TIMEOUT: Final = 50
CONCURRENT_TRANSACTIONS: Final = 51
OUT_OF_ORDER_SEQUENCE: Final = 45
DUPLICATE_SEQUENCE: Final = 46
UNKNOWN_PRODUCER_ID: Final = 59
PRODUCER_FENCED: Final = 90
UNKNOWN_TOPIC_ID: Final = 100

NAMES: Final = {
    -1: "UNKNOWN_SERVER_ERROR",
    1: "OFFSET_OUT_OF_RANGE",
    2: "CORRUPT_MESSAGE",
    3: "UNKNOWN_TOPIC_OR_PARTITION",
    5: "LEADER_NOT_AVAILABLE",
    6: "NOT_LEADER_OR_FOLLOWER",
    7: "REQUEST_TIMED_OUT",
    10: "MESSAGE_TOO_LARGE",
    14: "COORDINATOR_LOAD_IN_PROGRESS",
    15: "COORDINATOR_NOT_AVAILABLE",
    16: "NOT_COORDINATOR",
    17: "INVALID_TOPIC_EXCEPTION",
    19: "NOT_ENOUGH_REPLICAS",
    20: "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    22: "ILLEGAL_GENERATION",
    25: "UNKNOWN_MEMBER_ID",
    29: "TOPIC_AUTHORIZATION_FAILED",
    30: "GROUP_AUTHORIZATION_FAILED",
    31: "CLUSTER_AUTHORIZATION_FAILED",
    33: "UNSUPPORTED_SASL_MECHANISM",
    35: "UNSUPPORTED_VERSION",
    36: "TOPIC_ALREADY_EXISTS",
    41: "NOT_CONTROLLER",
    45: "OUT_OF_ORDER_SEQUENCE_NUMBER",
    46: "DUPLICATE_SEQUENCE_NUMBER",
    47: "INVALID_PRODUCER_EPOCH",
    48: "INVALID_TXN_STATE",
    49: "INVALID_PRODUCER_ID_MAPPING",
    50: "INVALID_TRANSACTION_TIMEOUT",
    51: "CONCURRENT_TRANSACTIONS",
    53: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    56: "KAFKA_STORAGE_ERROR",
    58: "SASL_AUTHENTICATION_FAILED",
    59: "UNKNOWN_PRODUCER_ID",
    72: "LISTENER_NOT_FOUND",
    74: "FENCED_LEADER_EPOCH",
    75: "UNKNOWN_LEADER_EPOCH",
    78: "OFFSET_NOT_AVAILABLE",
    87: "INVALID_RECORD",
    90: "PRODUCER_FENCED",
    100: "UNKNOWN_TOPIC_ID",
    103: "INCONSISTENT_TOPIC_ID",
}

# Errors that resolve themselves: a leader, coordinator or controller that moves, loads or lags.
PASSING: Final = frozenset({5, 6, 7, 13, 14, 15, 16, 19, 20, 41, 51, 56, 72, 74, 75, 78})


class PenstockClientError(Exception):
    """An error whose message says what to do about it."""


class NoBroker(PenstockClientError):
    """No broker responded at any of the addresses."""


class BrokerError(PenstockClientError):
    """An error response of the broker; `code` is the error code of the protocol."""

    def __init__(self, code: int, what: str, detail: str | None = None) -> None:
        self.code = code
        name = NAMES.get(code, f"error {code}")
        super().__init__(f"{what}: the broker responded with {name}" + (f" ({detail})" if detail else ""))

    def __reduce__(self) -> tuple[type[PenstockClientError], tuple[str]]:
        # Pickled as text only, when it is sent from an executor to the driver.
        return (PenstockClientError, (str(self),))

    @property
    def passing(self) -> bool:
        return self.code in PASSING


class BrokerBehind(BrokerError):
    """A broker does not know a topic yet that another broker has described."""

    @property
    def passing(self) -> bool:
        return True


def partition_error(code: int, what: str, detail: str | None = None) -> BrokerError:
    """Return the error for a partition that metadata contained. Refresh it before a retry: it shows a deletion."""
    kind = BrokerBehind if code in (UNKNOWN_TOPIC, UNKNOWN_TOPIC_ID) else BrokerError
    return kind(code, what, detail)


class Corrupt(PenstockClientError):
    """Bytes that fail a check: a checksum, a size, or decompression."""


class DataLoss(PenstockClientError):
    """Rows between two offsets are no longer available."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?`, or an empty string if no known name is similar."""
    by_lower = {one.lower(): one for one in known}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f" Did you mean '{by_lower[found[0]]}'?" if found else ""
