"""Deliberate differences from Apache Kafka, each with its reason.

A mismatch is excused by the first row whose patterns all match (shell style: * and ?).
Any other mismatch is a bug, or a difference that still has to be justified.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.differential.compare import Mismatch


@dataclass(frozen=True, slots=True)
class Difference:
    """A pattern of deliberate mismatches, and the reason."""

    scenario: str
    step: str
    path: str
    reason: str
    kafka: str = "*"
    penstock: str = "*"

    def excuses(self, mismatch: Mismatch) -> bool:
        pairs = (
            (mismatch.scenario, self.scenario),
            (mismatch.step, self.step),
            (mismatch.path, self.path),
            (str(mismatch.left), self.kafka),
            (str(mismatch.right), self.penstock),
        )
        return all(_matches(text, pattern) for text, pattern in pairs)


def _matches(text: str, pattern: str) -> bool:
    """Shell style, except that [ is only itself unless it opens a negation: paths are "
    "full of brackets."""
    return fnmatchcase(text, pattern.replace("[!", "\0").replace("[", "[[]").replace("\0", "[!"))


DIFFERENCES: tuple[Difference, ...] = (
    # --- Authorization
    Difference(
        "*",
        "*without*",
        "*error_message",
        "Kafka sends the internal state of the request that is denied",
        kafka="*Request(processor=*",
        penstock="Cluster authorization failed.",
    ),
    Difference(
        "alter_share_group_offsets *",
        "*without topic read",
        "responses[0].topic_id",
        "Kafka reveals the id of a topic that the client may not read, and so that it exists",
        penstock="None",
    ),
    Difference(
        "share_group_describe *",
        "*without topic describe",
        "groups[*",
        "Kafka shows subscriptions to topics that the client may not describe",
    ),
    Difference(
        "elect_leaders *",
        "*with all rights",
        "*error_message",
        "tools recognize this error by its code, and print any message as a failure",
        penstock="None",
    ),
    Difference(
        "alter_partition_reassignments *",
        "*with all rights",
        "*error_message",
        "the message says what is wrong",
        kafka="None",
    ),
    Difference(
        "describe_quorum *",
        "*with all rights",
        "*offset",
        "the metadata logs have different lengths",
    ),
    Difference(
        "describe_quorum *",
        "*with all rights",
        "*high_watermark",
        "the metadata logs have different lengths",
    ),
    # --- What is advertised and configured
    Difference(
        "*",
        "*api_versions*",
        "api_keys[*]",
        "only implemented APIs are advertised; a separate scenario compares their version ranges",
    ),
    Difference(
        "*",
        "*api_versions*",
        "*_features[*]",
        "a feature is finalized only when it is implemented, because clients rely on it",
    ),
    Difference(
        "*",
        "*",
        "*configs[flush.mode]*",
        "an option of Penstock: fsync before an acks=all response, or leave it to the operating system as Kafka does",
    ),
    Difference(
        "names of all broker configs",
        "*",
        "*",
        "options of parts that Penstock does not implement: threads, Kerberos, OAuth, tiering",
        penstock="<absent>",
    ),
    Difference("names of all broker configs", "*", "*", "options that only Penstock has", kafka="<absent>"),
    Difference(
        "names of all broker configs",
        "*",
        "listener*",
        "listeners cannot be changed while the node runs",
        kafka="* False",
        penstock="* True",
    ),
    *(
        Difference(
            "names of all broker configs",
            "*",
            f"{prefix}.*",
            "how clients and nodes authenticate cannot be changed while the node runs, only certificates can",
            kafka="* False",
            penstock="* True",
        )
        for prefix in ("sasl", "ssl")
    ),
    Difference(
        "names of all broker configs",
        "*",
        "listener.name.*.ssl.enabled.protocols",
        "Penstock can change it for one listener while the node runs, Kafka only for all",
        kafka="* True",
        penstock="* False",
    ),
    Difference(
        "broker configs",
        "*cluster-wide",
        "*configs[sasl.scram.unknown.users.secret]",
        "an option of Penstock, which the controller sets with the first user",
        kafka="<absent>",
    ),
    Difference(
        "broker configs",
        "*",
        "*configs[*].*source",
        "node.id and process.roles are in Kafka's file; in Penstock they are defaults",
        kafka="4",
        penstock="5",
    ),
    Difference(
        "broker configs*",
        "*",
        "*configs[log.cleaner.threads]*",
        "there are no cleaner threads",
    ),
    Difference(
        "broker values of compaction",
        "*log.cleaner.threads=*",
        "responses[0].error_*",
        "there are no cleaner threads, so any number from 1 on is accepted",
    ),
    Difference(
        "broker values of compaction",
        "*log.cleaner.io.*=*",
        "responses[0].error_*",
        "Kafka accepts a rate of zero and a map without space, and then stops compacting",
        kafka="[!4]*",
        penstock="*",
    ),
    Difference(
        "broker values of compaction",
        "*least lag over the greatest",
        "responses[0].error_*",
        "contradictory settings are rejected for a broker as for a topic",
    ),
    Difference(
        "broker values of compaction",
        "*unchanged",
        "results[0].configs[log.cleaner.m*.compaction.lag.ms]*",
        "as above",
    ),
    Difference(
        "broker configs are changed",
        "*unknown",
        "responses[0].error_*",
        "Kafka stores any unknown name for a broker; Penstock rejects it, as for a topic",
    ),
    Difference(
        "broker configs are changed",
        "*per-broker only*",
        "responses[0].error_message",
        "refused by both; listeners cannot be changed while the node runs",
    ),
    Difference(
        "broker configs are changed",
        "* set*",
        "responses[0].error_*",
        "there are no cleaner threads",
    ),
    # --- Share groups
    Difference(
        "*share*",
        "*share*",
        "*error_message",
        "Kafka gives no reason",
        kafka="None",
    ),
    Difference(
        "acknowledgements of share groups",
        "*share_acknowledge*",
        "*error_message",
        "Kafka has several texts for INVALID_RECORD_STATE",
        penstock="The record state is invalid.*",
    ),
    Difference(
        "share groups from end to end",
        "*describe_share_group_offsets*",
        "*start_offset",
        "the start offset is written with the acknowledgement that moves it, in Kafka with the next one",
    ),
    Difference(
        "share fetches that are refused",
        "*a group without a name",
        "*",
        "Kafka opens a session, and fails with an unknown error for each partition",
    ),
    Difference(
        "share fetches that are refused",
        "*an unknown topic",
        "*",
        "Kafka fails with an unknown error",
    ),
    # --- Security
    Difference(
        "other requests while authenticating",
        "* shaken, *",
        "outcome",
        "requests are not decoded before authentication, so an API with errors only for items gets no response",
        penstock="the connection was closed",
    ),
    *(
        Difference(
            "other requests while authenticating",
            f"* shaken, then {api} *",
            "outcome",
            "Kafka fails to decode the empty request of this scenario; Penstock decodes none",
            kafka="the connection was closed",
        )
        for api in ("describe_acls", "describe_user_scram_credentials")
    ),
    Difference(
        "other requests while authenticating",
        "* shaken, then consumer_group_heartbeat *",
        "response.error_message",
        "Penstock says what is wrong",
        kafka="None",
    ),
    Difference(
        "other requests while authenticating",
        "* shaken, *",
        "response.*",
        "beside the error, the fields have the defaults of the schema",
        kafka="[!3U]*",
    ),
    Difference(
        "scram * messages",
        "* a token",
        "*",
        "an unknown token fails at the proof, like a wrong password, so that nobody learns which tokens exist",
        kafka="*",
    ),
    Difference(
        "scram first messages",
        "* an escaped user",
        "*",
        "an unknown user fails at the proof, like a wrong password, so that nobody learns which users exist",
    ),
    Difference(
        "scram first messages",
        "* a reserved field",
        "*",
        "RFC 5802 requires a failure for an extension that the server does not know",
    ),
    Difference(
        "scram final messages",
        "* an extension",
        "*",
        "the proof must cover the extensions (RFC 5802); Kafka leaves them out",
    ),
    Difference(
        "scram final messages",
        "* a short proof",
        "outcome",
        "Kafka fails with an internal error and closes the connection",
        kafka="the connection was closed",
    ),
    Difference(
        "scram final messages",
        "* another binding",
        "*",
        "Kafka does not check the channel binding",
    ),
    Difference(
        "sessions that end",
        "* again with an unknown mechanism: handshake",
        "outcome",
        "Kafka closes the connection without a response",
        kafka="the connection was closed",
        penstock="33 unsupported_sasl_mechanism",
    ),
    Difference(
        "scram credentials that are refused",
        "* two mechanisms of a user",
        "*",
        "Kafka rejects changes of two mechanisms of a user in one request; KIP-554 allows them",
    ),
    *(
        Difference(
            "scram credentials that are refused", f"* {what}", "*", "Kafka stores an empty salt; Penstock rejects it"
        )
        for what in ("no salt", "no password")
    ),
    Difference(
        "tls client certificates",
        "*",
        "outcome",
        "both refuse; OpenSSL's alert is more specific than Java's",
        kafka="refused: *",
        penstock="refused: *",
    ),
    Difference(
        "what is not tls",
        "*",
        "outcome",
        "both refuse; OpenSSL and Java send different alerts, and Penstock closes on a first byte that is not TLS",
        kafka="[!s]*",
        penstock="[!so]*",
    ),
    # --- Where Kafka answers with an unknown error, or not at all
    Difference(
        "*",
        "*",
        "*",
        "Kafka fails with UNKNOWN_SERVER_ERROR; Penstock returns a specific error",
        kafka="-1 unknown_server_error",
        penstock="[!0]*",
    ),
    Difference(
        "the same resource twice",
        "*alter_configs v2*",
        "outcome",
        "Kafka never responds",
        kafka="no answer",
    ),
    Difference("batches that lie", "*null records", "outcome", "Kafka never responds", kafka="no answer"),
    Difference(
        "topic configs are changed",
        "*an unknown operation",
        "*error_message",
        "Penstock says what is wrong",
        kafka="None",
    ),
    Difference(
        "metadata by id",
        "*with neither",
        "*",
        "Kafka fails the request with UNKNOWN_SERVER_ERROR; Penstock only the topic",
    ),
    Difference(
        "topic partitions are described",
        "*unknown and bad names",
        "*",
        "one bad name makes Kafka fail for all names with UNKNOWN_SERVER_ERROR; Penstock only for that one",
    ),
    Difference(
        "read committed without transactions",
        "*an isolation level of 7",
        "*",
        "Kafka: UNKNOWN_SERVER_ERROR; Penstock treats every level but 1 as uncommitted",
    ),
    Difference(
        "fetch limits",
        "* -156*",
        "*",
        "a negative limit: Kafka fails with UNKNOWN_SERVER_ERROR, Penstock treats it as zero bytes",
    ),
    # --- Stricter or plainer than Kafka
    Difference(
        "counts that lie",
        "*metadata v1*",
        "outcome",
        "Kafka treats any negative count as null; Penstock only -1",
        penstock="the connection was closed",
    ),
    Difference(
        "client ids",
        "*of length -2",
        "outcome",
        "Kafka treats any negative length as null; Penstock only -1",
    ),
    Difference(
        "names that are not text",
        "*",
        "tail",
        "the number of replacement characters for an invalid one depends on the language",
    ),
    Difference(
        "metadata in every version",
        "*of an unknown topic",
        "topics[*]*",
        "up to version 3 the request creates the topic: it is complete in the first response here, later in Kafka",
        penstock="0 none",
    ),
    Difference(
        "metadata in every version",
        "*of an unknown topic",
        "topics[*].partitions[0]",
        "as above",
        kafka="<absent>",
    ),
    Difference(
        "offsets for leader epochs",
        "*asked -5",
        "*",
        "there is no epoch -5; Kafka echoes it with offset 0",
    ),
    Difference(
        "fetch the same partition twice",
        "*",
        "responses[*",
        "Kafka keeps the last of the two, Penstock responds for both",
    ),
    Difference(
        "fetch limits",
        "*",
        "*records[*]",
        "Kafka cuts the last batch where the limit falls and the client throws the piece "
        "away; Penstock sends whole batches",
        kafka="{'bytes_left_over': *",
        penstock="<absent>",
    ),
    Difference(
        "fetch waits for enough bytes but not for ever",
        "*an unknown partition ends the wait",
        "outcome",
        "Kafka waits and then reports the unknown partition; Penstock reports it immediately",
        kafka="False",
        penstock="True",
    ),
    Difference(
        "metadata in every version",
        "*of an unknown topic",
        "topics[*].error_code",
        "while the topic is created Kafka calls it unknown, Penstock without a leader; clients retry",
        penstock="5 leader_not_available",
    ),
    Difference(
        "batches that lie",
        "*transactional without a producer",
        "*error_code",
        "rejected by both: Kafka checks whether the producer may use a null transactional id",
    ),
    Difference(
        "batches that lie",
        "*a batch and a half",
        "*",
        "Kafka drops bytes after the first batch; Penstock rejects them",
    ),
    Difference(
        "batches that lie", "*bytes behind", "*", "Kafka drops bytes after the first batch; Penstock rejects them"
    ),
    # --- Groups
    Difference(
        "heartbeats that are refused",
        "*a broken pattern",
        "error_message",
        "the error in a pattern is described by the library that parses it",
        kafka="*is not a valid regular expression*",
        penstock="*is not a valid regular expression*",
    ),
    Difference(
        "patterns of every kind",
        "*a broken pattern*",
        "error_message",
        "as above",
        kafka="*is not a valid regular expression*",
        penstock="*is not a valid regular expression*",
    ),
    Difference(
        "a consumer joins a classic group",
        "*cannot be read",
        "error_message",
        "Kafka fails with UNKNOWN_SERVER_ERROR; Penstock says why the group cannot be converted",
        kafka="None",
    ),
    Difference(
        "commits of one topic twice",
        "*one topic twice",
        "topics[*",
        "a topic named twice appears once in the response, with all of its partitions",
    ),
    Difference(
        "subscriptions that nobody can read",
        "*with the id",
        "outcome",
        "Kafka fails to decode the bytes in a timer and never responds; Penstock does not interpret them",
        kafka="no answer",
    ),
    # --- Transactions
    Difference(
        "transactions are described and listed",
        "*describe_producers v0",
        "topics[*.missing].partitions[0].error_message",
        "Kafka has a message for a missing topic but none for a missing partition; the code is the same",
        penstock="None",
    ),
    Difference(
        "a transactional id that was never opened",
        "*",
        "*error_message",
        "the code is the same; no coordinator was requested yet, so there is none",
        kafka="*COORDINATOR_NOT_AVAILABLE",
        penstock="*NOT_COORDINATOR",
    ),
    Difference(
        "partitions are * transactions",
        "*",
        "*results_by_partition order",
        "Kafka responds in the order of a hash table, Penstock in that of the request",
    ),
    Difference("transaction markers by hand", "*", "markers[0].topics order", "as above"),
    Difference(
        "partitions are added to transactions",
        "* none",
        "results_by_topic_v3_and_below[*",
        "a topic of no partitions is left out",
        penstock="<absent>",
    ),
    # --- Produce answers
    Difference(
        "*", "*produce v*", "*error_message", "Penstock says what is wrong where Kafka says nothing", kafka="None"
    ),
    Difference(
        "*",
        "*produce v*",
        "*error_message",
        "the message differs, the code is the same",
        kafka="Record size*",
    ),
    Difference(
        "*",
        "*produce v*",
        "*log_append_time",
        "for a duplicate Kafka returns the old batch's largest CreateTime as if it were an append time",
        kafka="17*",
        penstock="None",
    ),
    Difference(
        "*",
        "*produce v*",
        "*log_start_offset",
        "in an error response: Kafka's value depends on how far the batch was processed",
    ),
    Difference(
        "*",
        "*produce v*",
        "*batch_index_error_message",
        "the message differs, the code and the index are the same",
    ),
    Difference(
        "*",
        "*produce v*",
        "*error_message",
        "the message differs, the code is the same",
        kafka="One or more*",
    ),
    Difference(
        "records that lie",
        "*",
        "*",
        "a batch is stored as received, after checks of header and checksum: decoding every record "
        "would cost most of the throughput "
        "(docs/decisions); its records are not checked",
        penstock="[!5]*",
    ),
    Difference("batches that lie", "*count of one less, delta too", "*", "as above: the records are not counted"),
    Difference(
        "topics with wrong configs",
        "*preallocate=TRUE",
        "*value",
        "a value is returned as parsed, not as typed",
    ),
    Difference(
        "several partitions in one request",
        "*a topic of no partitions",
        "*",
        "Kafka leaves out a topic without partitions",
    ),
    Difference(
        "offsets of records without a time",
        "*of -3",
        "*",
        "a log without timestamps has no largest timestamp; Kafka returns offset 0",
    ),
)


def unexplained(mismatches: Iterable[Mismatch]) -> list[Mismatch]:
    return [one for one in mismatches if not any(row.excuses(one) for row in DIFFERENCES)]
