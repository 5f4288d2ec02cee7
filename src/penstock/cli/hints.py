"""What a user of the command line can do about a failed action, by the code of its ActionError."""

from collections.abc import Mapping
from typing import Final

from penstock.actions.errors import (
    CONNECTION_REFUSED,
    UNKNOWN_HOST,
    UNKNOWN_NODE,
    UNKNOWN_SHARE_GROUP,
    UNKNOWN_USER,
    ActionError,
    ActionErrors,
)
from penstock.actions.profiles import UNKNOWN_PROFILE

_DIAGNOSE: Final = "Run 'penstock doctor' to find the cause."
_LIST_TOPICS: Final = "Run 'penstock topic list' to list the topics."
_LIST_GROUPS: Final = "Run 'penstock group list' to list the groups."
_STOP_CONSUMERS: Final = "Stop the consumers of the group first; 'penstock group describe' lists them."
_RETRY: Final = "Try again later."

HINTS: Final[Mapping[str, str]] = {
    CONNECTION_REFUSED: "Start a broker with 'penstock start' or pass another address with --bootstrap.",
    UNKNOWN_HOST: "Check the host name in --bootstrap.",
    UNKNOWN_PROFILE: "Run 'penstock profile list' to list the profiles.",
    UNKNOWN_NODE: "Run 'penstock cluster nodes' to list the nodes.",
    "MISSING_REPLAY_TARGET": "Create the topic again, or pass another topic with --to.",
    "NO_DEAD_LETTER_TOPIC": "Run 'penstock dlq list' to list the dead-letter topics.",
    "NO_METRICS_LISTENER": "Start the brokers with --metrics PORT.",
    "NO_SUCH_TRANSACTION": "Run 'penstock txn find-hanging' to list hanging transactions.",
    "NO_COMMITTED_OFFSETS": "Pass the topics to reset with --topic.",
    "USER_EXISTS": "Change its password with 'penstock user passwd'.",
    UNKNOWN_SHARE_GROUP: "Run 'penstock queue list' to list the share groups.",
    UNKNOWN_USER: "Run 'penstock user list' to list the users.",
    "NO_AUDIT": "The topic is created by the first denial. Check authorizer.audit.topic, and that you may read it.",
    "DELEGATION_TOKEN_AUTH_DISABLED": "Set delegation.token.secret.key to the same value on every node.",
    "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED": "Log in with a user name and a password, or with a certificate.",
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED": "Allow it with 'penstock acl allow USER create-tokens user:OWNER'. Only "
    "super users create tokens of super users.",
    "UNKNOWN_TOKEN": "Run 'penstock token list' to list the tokens.",
    "UNKNOWN_ACL": "Run 'penstock acl list' to list the ACLs.",
    "SECURITY_DISABLED": "Start the broker with --secure, or set authorizer.class.name.",
    "CLUSTER_AUTHORIZATION_FAILED": "Log in as a super user, or as a user with this right on the cluster.",
    "NOT_SECURED": "Start with --secure to create it.",
    "UNKNOWN_QUOTA": "Run 'penstock quota list' to list the quotas.",
    "INVALID_QUOTA": "Run 'penstock quota set --help' to list the quota names.",
    "KEY_REQUIRED": "Pass keys with --key-separator or --key, or set cleanup.policy=delete.",
    # Errors of librdkafka.
    "TOPIC_ALREADY_EXISTS": "Choose another name, or pass --if-not-exists.",
    "UNKNOWN_TOPIC_OR_PART": _LIST_TOPICS,
    "_UNKNOWN_TOPIC": _LIST_TOPICS,
    "_UNKNOWN_PARTITION": "Run 'penstock topic describe TOPIC' to list its partitions.",
    "INVALID_PARTITIONS": "Pass the new total number of partitions; it must be higher than the current one.",
    "INVALID_REPLICATION_FACTOR": "Pass a replication factor no higher than the number of brokers.",
    "TOPIC_EXCEPTION": "Use at most 249 letters, digits, '.', '_' and '-'.",
    "MSG_SIZE_TOO_LARGE": "Run 'penstock config set --topic TOPIC max.message.bytes=N', or send smaller records.",
    "TOPIC_DELETION_DISABLED": "Start the broker with --set delete.topic.enable=true.",
    "_TRANSPORT": _DIAGNOSE,
    "_ALL_BROKERS_DOWN": _DIAGNOSE,
    "_TIMED_OUT": _DIAGNOSE,
    "_MSG_TIMED_OUT": _DIAGNOSE,
    "REQUEST_TIMED_OUT": f"{_RETRY} {_DIAGNOSE}",
    "GROUP_ID_NOT_FOUND": _LIST_GROUPS,
    "NON_EMPTY_GROUP": _STOP_CONSUMERS,
    "UNKNOWN_MEMBER_ID": _STOP_CONSUMERS,
    "REBALANCE_IN_PROGRESS": _RETRY,
    "COORDINATOR_NOT_AVAILABLE": f"{_RETRY} {_DIAGNOSE}",
    "COORDINATOR_LOAD_IN_PROGRESS": _RETRY,
    "NOT_COORDINATOR": _RETRY,
    "INVALID_GROUP_ID": "Pass a group name that is not empty.",
    "KAFKA_STORAGE_ERROR": "Check the log of the broker, and its files with 'penstock log verify'.",
    # Errors of Kafka that librdkafka has no function for.
    "TRANSACTIONAL_ID_NOT_FOUND": "Run 'penstock txn list' to list the transactional ids.",
    "CONCURRENT_TRANSACTIONS": "The previous transaction is still ending. Try again later.",
    "UNKNOWN_TOPIC_OR_PARTITION": _LIST_TOPICS,
    "INVALID_PRODUCER_EPOCH": "The producer has started a new transaction. Run 'penstock txn find-hanging' again.",
    "INVALID_REGULAR_EXPRESSION": "Check the pattern.",
}


def describe(error: ActionError) -> str:
    """Return the message of an error, followed by similar names and by what to do next."""
    if isinstance(error, ActionErrors):
        return " | ".join(describe(each) for each in error.errors)
    return " ".join(filter(None, (str(error), error.suggestion, HINTS.get(error.code))))
