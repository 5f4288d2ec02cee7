"""Why a broker did not accept records, in cases where the error of librdkafka does not say so."""

from typing import Final, NamedTuple

from penstock.actions.configs import Resource, ResourceType, describe_config
from penstock.actions.connection import Connection
from penstock.actions.doctor import unwritable_log_dirs
from penstock.actions.errors import TIMED_OUT, ActionError

DISK_PROBLEM: Final = "DISK_PROBLEM"
KEY_REQUIRED: Final = "KEY_REQUIRED"

# librdkafka repeats a request after KAFKA_STORAGE_ERROR until its own time limit.
_STORAGE_ERRORS: Final = frozenset({"KAFKA_STORAGE_ERROR", "NOT_ENOUGH_REPLICAS", "_MSG_TIMED_OUT", TIMED_OUT})


class Cause(NamedTuple):
    """Why a write failed, and the code by which a front end adds the next step."""

    text: str
    code: str


def find_cause(connection: Connection, topic: str, code: str, *, keyless: bool) -> Cause | None:
    """Return the cause of a failed write; None if it is not known."""
    if code in _STORAGE_ERRORS and (problem := disk_problem(connection)):
        return Cause(problem, DISK_PROBLEM)
    if code == "INVALID_RECORD" and keyless and _is_compacted(connection, topic):
        return Cause(f"{topic}: a record without a key cannot be written to a compacted topic.", KEY_REQUIRED)
    return None


def disk_problem(connection: Connection) -> str | None:
    """Return a sentence about the disks that reject writes; None if there are none."""
    found = unwritable_log_dirs(connection)
    if not found:
        return None
    step = "Free space there, or shorten retention." if any(each.is_full for each in found) else "Check its log."
    return f"{'; '.join(map(str, found))}. {step}"


def _is_compacted(connection: Connection, topic: str) -> bool:
    try:
        policy = describe_config(connection, Resource(ResourceType.TOPIC, topic))["cleanup.policy"].value
    except (ActionError, KeyError):
        return False
    return "compact" in (policy or "").split(",")
