"""Rules for topic names, and the list of internal topics.

controller/topics.py applies the rules to new topics, handlers to the topics in requests. The error
texts are Kafka's. Refuses with InvalidTopic.
"""

import re
from typing import Final

from penstock.model.errors import InvalidTopic
from penstock.model.ids import TopicName

# 255 is the maximum length of a folder name on most file systems; a partition adds "-" and up to five digits.
TOPIC_NAME_LENGTH_MAX: Final = 249

CONSUMER_OFFSETS: Final = TopicName("__consumer_offsets")
TRANSACTION_STATE: Final = TopicName("__transaction_state")
SHARE_GROUP_STATE: Final = TopicName("__share_group_state")
CLUSTER_METADATA: Final = TopicName("__cluster_metadata")
AUDIT: Final = TopicName("__penstock_audit")
_STATE_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE, CLUSTER_METADATA})
INTERNAL_TOPICS: Final = _STATE_TOPICS | {AUDIT}

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def is_internal(name: str) -> bool:
    """Return whether brokers write the topic; clients do not see it in patterns and lists."""
    return name in INTERNAL_TOPICS


def keeps_state(name: str) -> bool:
    """Return whether coordinators keep their state in the topic: nobody produces to it with a request."""
    return name in _STATE_TOPICS


def name_problem(name: str) -> str | None:
    """Return what is wrong with a topic name, or None if it is legal."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        return (
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed length "
            f"{TOPIC_NAME_LENGTH_MAX}"
        )
    if not _LEGAL.fullmatch(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    return None


def check_name(name: str) -> TopicName:
    """Return the name as a TopicName; raise InvalidTopic if it is not legal."""
    problem = name_problem(name)
    if problem is not None:
        raise InvalidTopic(problem)
    return TopicName(name)


def collision_key(name: str) -> str:
    """Return a key that is equal for names that collide in metric names, where '.' becomes '_'."""
    return name.replace(".", "_")
