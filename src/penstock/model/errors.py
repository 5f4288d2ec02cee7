"""Errors that clients handle, and errors that mean damaged data.

A `Refusal` is for the client to handle: it carries the error code of the response and is never logged as
a fault. A `Corruption` means that bytes on this node's disk fail a check: the partition goes offline on
this node and is repaired, never served. Any other exception that leaves a handler is a bug and is answered
with UNKNOWN_SERVER_ERROR.
"""

from typing import ClassVar

NO_ERROR = 0
UNKNOWN_SERVER_ERROR = -1


class PenstockError(Exception):
    """The root of every error that this project raises on purpose."""


class Corruption(PenstockError):
    """Bytes on disk that fail a check; the message names the file and the position."""


class Refusal(PenstockError):
    """A request, or a part of one, that is answered with an error code."""

    code: ClassVar[int] = UNKNOWN_SERVER_ERROR
    meaning: ClassVar[str] = ""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or self.meaning)

    @property
    def message(self) -> str:
        return str(self)


class OffsetOutOfRange(Refusal):
    code = 1
    meaning = "The offset is outside the log."


class CorruptMessage(Refusal):
    code = 2
    meaning = "The bytes fail their checksum or cannot be what they claim to be."


class UnknownTopicOrPartition(Refusal):
    code = 3
    meaning = "This server does not host this topic-partition."


class LeaderNotAvailable(Refusal):
    code = 5
    meaning = "There is no leader for this partition yet."


class NotLeaderOrFollower(Refusal):
    code = 6
    meaning = "This broker is not the leader or follower of the partition that the request needs."


class RequestTimedOut(Refusal):
    code = 7
    meaning = "The request timed out."


class MessageTooLarge(Refusal):
    code = 10
    meaning = "The batch is larger than max.message.bytes allows."


class InvalidTopic(Refusal):
    code = 17
    meaning = "The topic name is not legal, or the topic may not be written by clients."


class RecordListTooLarge(Refusal):
    code = 18
    meaning = "The records do not fit into one segment."


class NotEnoughReplicas(Refusal):
    code = 19
    meaning = "Fewer replicas are in sync than min.insync.replicas requires."


class NotEnoughReplicasAfterAppend(Refusal):
    code = 20
    meaning = "The records are written, but fewer replicas are in sync now than min.insync.replicas requires."


class InvalidRequiredAcks(Refusal):
    code = 21
    meaning = "acks must be -1, 0 or 1."


class UnsupportedSaslMechanism(Refusal):
    code = 33
    meaning = "The listener does not enable this SASL mechanism."


class IllegalSaslState(Refusal):
    code = 34
    meaning = "Request is not valid given the current SASL state."


class UnsupportedVersion(Refusal):
    code = 35
    meaning = "The version of the API is not supported."


class TopicAlreadyExists(Refusal):
    code = 36
    meaning = "A topic with this name already exists."


class InvalidPartitions(Refusal):
    code = 37
    meaning = "The number of partitions is invalid."


class InvalidReplicationFactor(Refusal):
    code = 38
    meaning = "The replication factor is invalid or larger than the number of available brokers."


class InvalidReplicaAssignment(Refusal):
    code = 39
    meaning = "The replica assignment is invalid."


class InvalidConfig(Refusal):
    code = 40
    meaning = "The configuration is invalid."


class NotController(Refusal):
    code = 41
    meaning = "This node is not the active controller."


class InvalidRequest(Refusal):
    code = 42
    meaning = "The request is invalid."


class PolicyViolation(Refusal):
    code = 44
    meaning = "The request violates a policy of this cluster."


class OutOfOrderSequence(Refusal):
    code = 45
    meaning = "The batch's sequence number does not follow the producer's previous batch."


class InvalidProducerEpoch(Refusal):
    code = 47
    meaning = "A newer instance of the producer has written to the partition."


class InvalidTxnState(Refusal):
    code = 48
    meaning = "The producer's transaction is not in a state that allows this."


class InvalidTransactionTimeout(Refusal):
    code = 50
    meaning = "The transaction timeout is larger than transaction.max.timeout.ms."


class TransactionCoordinatorFenced(Refusal):
    code = 52
    meaning = "A newer coordinator has written markers for this producer."


class TopicAuthorizationFailed(Refusal):
    code = 29
    meaning = "Topic authorization failed."


class GroupAuthorizationFailed(Refusal):
    code = 30
    meaning = "Group authorization failed."


class ClusterAuthorizationFailed(Refusal):
    code = 31
    meaning = "Cluster authorization failed."


class SecurityDisabled(Refusal):
    code = 54
    meaning = "No Authorizer is configured."


class StorageError(Refusal):
    code = 56
    meaning = "The log directory has failed; see the broker's log."


class UnknownProducerId(Refusal):
    code = 59
    meaning = "The producer id is unknown."


class DelegationTokenAuthDisabled(Refusal):
    code = 61
    meaning = "Delegation tokens are disabled: delegation.token.secret.key is not set."


class DelegationTokenNotFound(Refusal):
    code = 62
    meaning = "There is no such delegation token."


class DelegationTokenOwnerMismatch(Refusal):
    code = 63
    meaning = "The client neither owns the delegation token nor may renew it."


class DelegationTokenRequestNotAllowed(Refusal):
    code = 64
    meaning = "Delegation tokens are not available to anonymous clients and to clients that logged in with a token."


class DelegationTokenAuthorizationFailed(Refusal):
    code = 65
    meaning = "The client may not create delegation tokens for this owner."


class DelegationTokenExpired(Refusal):
    code = 66
    meaning = "The delegation token has expired."


class InvalidPrincipalType(Refusal):
    code = 67
    meaning = "The type of a principal is not User."


class FetchSessionIdNotFound(Refusal):
    code = 70
    meaning = "There is no such fetch session."


class InvalidFetchSessionEpoch(Refusal):
    code = 71
    meaning = "The fetch session is at another epoch."


class FencedLeaderEpoch(Refusal):
    code = 74
    meaning = "The leader epoch in the request is older than the current one."


class UnknownLeaderEpoch(Refusal):
    code = 75
    meaning = "The leader epoch in the request is newer than the one that this broker knows."


class UnsupportedCompressionType(Refusal):
    code = 76
    meaning = "The compression codec is unknown, or too new for this version of the request."


class StaleBrokerEpoch(Refusal):
    code = 77
    meaning = "The broker epoch does not match the broker's current registration."


class OffsetNotAvailable(Refusal):
    code = 78
    meaning = "The leader does not know its high watermark yet."


class PreferredLeaderNotAvailable(Refusal):
    code = 80
    meaning = "The preferred replica cannot become leader now."


class EligibleLeadersNotAvailable(Refusal):
    code = 83
    meaning = "No replica that may become leader is alive."


class ElectionNotNeeded(Refusal):
    code = 84
    meaning = "The partition already has the leader that the election would choose."


class NoReassignmentInProgress(Refusal):
    code = 85
    meaning = "The partition is not being reassigned."


class ThrottlingQuotaExceeded(Refusal):
    code = 89
    meaning = "The throttling quota has been exceeded."


class ProducerFenced(Refusal):
    code = 90
    meaning = "A newer producer with the same transactional id exists."


class SaslAuthenticationFailed(Refusal):
    code = 58
    meaning = "SASL Authentication failed."


class UnacceptableCredential(Refusal):
    code = 93
    meaning = "Requested credential would not meet criteria for acceptability."


class ResourceNotFound(Refusal):
    code = 91
    meaning = "There is no such resource."


class DuplicateResource(Refusal):
    code = 92
    meaning = "The request names a resource twice."


class InvalidUpdateVersion(Refusal):
    code = 95
    meaning = "The update's version is invalid."


class SnapshotNotFound(Refusal):
    code = 98
    meaning = "This node does not have the snapshot."


class PositionOutOfRange(Refusal):
    code = 99
    meaning = "The position is outside the snapshot."


class UnknownTopicId(Refusal):
    code = 100
    meaning = "This broker does not host a topic with this id."


class DuplicateBrokerRegistration(Refusal):
    code = 101
    meaning = "Another running broker is registered with this id."


class BrokerIdNotRegistered(Refusal):
    code = 102
    meaning = "No broker with this id is registered."


class InconsistentClusterId(Refusal):
    code = 104
    meaning = "The node belongs to another cluster."


class DuplicateVoter(Refusal):
    code = 126
    meaning = "The node is already a voter."


class VoterNotFound(Refusal):
    code = 127
    meaning = "The node is not a voter."


class FetchSessionTopicIdError(Refusal):
    code = 106
    meaning = "The fetch session mixes topic names and topic ids."


class IneligibleReplica(Refusal):
    code = 107
    meaning = "A replica cannot join the ISR: its broker is fenced, shutting down, or has restarted."


class NewLeaderElected(Refusal):
    code = 108
    meaning = "The change was made, and another replica is now the leader."


class InvalidRegistration(Refusal):
    code = 119
    meaning = "The registration is invalid."


class RecordRefusal(Refusal):
    """A refusal that can name the records at fault (KIP-467), by their index in the batch."""

    def __init__(self, message: str | None = None, *, record_errors: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(message)
        self.record_errors = record_errors


class InvalidRecord(RecordRefusal):
    code = 87
    meaning = "A record does not have the form that the topic or the protocol requires."


class InvalidTimestamp(RecordRefusal):
    code = 32
    meaning = "A record's timestamp is outside the bounds of the topic."


class StartupError(PenstockError):
    """A node that cannot start; the message is one line that says why and what to do next."""


class PortInUse(StartupError):
    """Another process listens on a port of the node."""

    def __init__(self, port: int, option: str) -> None:
        super().__init__(f"Port {port} is in use: stop the program that uses it, or choose another port with {option}")
        self.port = port


class InvalidRegularExpression(Refusal):
    code = 128
    meaning = "The regular expression is invalid."
