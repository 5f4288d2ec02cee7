"""Deliberate differences from Apache Kafka, each with its reason.

A mismatch is excused by the first row whose patterns all match (shell style: * and ?).
Anything not listed here is a fault of ours, or a row that has yet to be argued for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.differential.compare import Mismatch


@dataclass(frozen=True, slots=True)
class Difference:
    """Which mismatches are meant to be there, and why."""

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
    # --- What is advertised and configured
    Difference(
        "*",
        "*api_versions*",
        "api_keys[*]",
        "only APIs whose semantics are there are advertised; a scenario of its own compares the ranges of those",
    ),
    Difference(
        "*",
        "*api_versions*",
        "*_features[*]",
        "a feature is finalised when its semantics are there: clients act on what they are promised",
    ),
    Difference(
        "*",
        "*",
        "*configs[flush.mode]*",
        "Penstock's own option: fsync before an acks=all answer, or leave it to the operating system as Kafka does",
    ),
    Difference(
        "names of all broker configs",
        "*",
        "*",
        "options of parts that Penstock does not have: threads, Kerberos, OAuth, tiering",
        penstock="<absent>",
    ),
    Difference("names of all broker configs", "*", "*", "options that are Penstock's own", kafka="<absent>"),
    Difference(
        "names of all broker configs",
        "*",
        "listener*",
        "listeners are not changed while the node runs",
        kafka="* False",
        penstock="* True",
    ),
    Difference(
        "broker configs",
        "*",
        "*configs[*].*source",
        "node.id and process.roles stand in Kafka's file; in Penstock they are defaults",
        kafka="4",
        penstock="5",
    ),
    Difference(
        "broker configs*",
        "*",
        "*configs[log.cleaner.threads]*",
        "there are no cleaner threads to count",
    ),
    Difference(
        "broker values of compaction",
        "*log.cleaner.threads=*",
        "responses[0].error_*",
        "there are no cleaner threads to count, so any number from 1 on will do",
    ),
    Difference(
        "broker values of compaction",
        "*log.cleaner.io.*=*",
        "responses[0].error_*",
        "Kafka takes a rate of zero and a map without room, and then compacts nothing any more",
        kafka="[!4]*",
        penstock="*",
    ),
    Difference(
        "broker values of compaction",
        "*least lag over the greatest",
        "responses[0].error_*",
        "two settings that contradict each other are refused at a broker as they are at a topic",
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
        "Kafka keeps any unknown name for a broker; a misspelled option is refused here, as it is for a topic",
    ),
    Difference(
        "broker configs are changed",
        "*per-broker only*",
        "responses[0].error_message",
        "refused by both; listeners are not changed while the node runs",
    ),
    Difference(
        "broker configs are changed",
        "* set*",
        "responses[0].error_*",
        "there are no cleaner threads to count",
    ),
    # --- Where Kafka answers with an unknown error, or not at all
    Difference(
        "*",
        "*",
        "*",
        "Kafka's answer is an accident (UNKNOWN_SERVER_ERROR); Penstock names the error",
        kafka="-1 unknown_server_error",
        penstock="[!0]*",
    ),
    Difference(
        "the same resource twice",
        "*alter_configs v2*",
        "outcome",
        "Kafka never answers this one",
        kafka="no answer",
    ),
    Difference("batches that lie", "*null records", "outcome", "Kafka never answers this one", kafka="no answer"),
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
        "Kafka fails as a whole with UNKNOWN_SERVER_ERROR; Penstock for the topic",
    ),
    Difference(
        "topic partitions are described",
        "*unknown and bad names",
        "*",
        "one bad name makes Kafka fail for all names with UNKNOWN_SERVER_ERROR; Penstock answers each",
    ),
    Difference(
        "read committed without transactions",
        "*an isolation level of 7",
        "*",
        "Kafka: UNKNOWN_SERVER_ERROR; Penstock reads every level but 1 as uncommitted",
    ),
    Difference(
        "fetch limits",
        "* -156*",
        "*",
        "a negative limit: Kafka fails with UNKNOWN_SERVER_ERROR, Penstock reads it as none",
    ),
    # --- Stricter or plainer than Kafka
    Difference(
        "counts that lie",
        "*metadata v1*",
        "outcome",
        "any negative count is null to Kafka; here only -1 is",
        penstock="the connection was closed",
    ),
    Difference(
        "client ids",
        "*of length -2",
        "outcome",
        "any negative length is null to Kafka; here only -1 is",
    ),
    Difference(
        "names that are not text",
        "*",
        "tail",
        "how many replacement characters stand for a broken one is left to the language",
    ),
    Difference(
        "metadata in every version",
        "*of an unknown topic",
        "topics[*]*",
        "up to version 3 asking makes the topic: here it is complete in the first answer, in Kafka in a later one",
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
        "Kafka keeps the last of the two, Penstock answers both",
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
        "Kafka sits out the wait and then reports the unknown partition; Penstock reports it at once",
        kafka="False",
        penstock="True",
    ),
    Difference(
        "metadata in every version",
        "*of an unknown topic",
        "topics[*].error_code",
        "while the topic is made Kafka calls it unknown, and Penstock without a leader yet; clients ask again",
        penstock="5 leader_not_available",
    ),
    Difference(
        "batches that lie",
        "*transactional without a producer",
        "*error_code",
        "refused by both: Kafka asks whether the producer may use a null transactional id",
    ),
    Difference(
        "batches that lie",
        "*a batch and a half",
        "*",
        "Kafka drops what follows the first batch; Penstock refuses it",
    ),
    Difference(
        "batches that lie", "*bytes behind", "*", "Kafka drops what follows the first batch; Penstock refuses it"
    ),
    # --- Groups
    Difference(
        "heartbeats that are refused",
        "*a broken pattern",
        "error_message",
        "what is wrong with a pattern is in the words of the library that reads it",
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
        "Kafka's answer is an accident (UNKNOWN_SERVER_ERROR); Penstock says why the group cannot be converted",
        kafka="None",
    ),
    Difference(
        "commits of one topic twice",
        "*one topic twice",
        "topics[*",
        "a topic that was named twice is answered once, with all of its partitions",
    ),
    Difference(
        "subscriptions that nobody can read",
        "*with the id",
        "outcome",
        "Kafka fails on the bytes inside a timer and never answers; to Penstock they are the clients' own affair",
        kafka="no answer",
    ),
    # --- Transactions
    Difference(
        "transactions are described and listed",
        "*describe_producers v0",
        "topics[*.missing].partitions[0].error_message",
        "Kafka has words for a missing topic and none for a missing partition; the code says it all",
        penstock="None",
    ),
    Difference(
        "a transactional id that was never opened",
        "*",
        "*error_message",
        "the code is the same; nobody has asked for a coordinator yet, so there is none",
        kafka="*COORDINATOR_NOT_AVAILABLE",
        penstock="*NOT_COORDINATOR",
    ),
    Difference(
        "partitions are * transactions",
        "*",
        "*results_by_partition order",
        "Kafka answers in the order of a hash table, Penstock as it was asked",
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
        "the words are Penstock's own, the code is the same",
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
        "in an answer that carries an error: Kafka gives it or not by how far the batch came",
    ),
    Difference(
        "*",
        "*produce v*",
        "*batch_index_error_message",
        "the words are Penstock's own, the code and the index are the same",
    ),
    Difference(
        "*",
        "*produce v*",
        "*error_message",
        "the words are Penstock's own, the code is the same",
        kafka="One or more*",
    ),
    Difference(
        "records that lie",
        "*",
        "*",
        "a batch is kept as it came, by its header and checksum: opening every record "
        "would cost most of the throughput "
        "(docs/decisions); what is inside is the producer's word",
        penstock="[!5]*",
    ),
    Difference("batches that lie", "*count of one less, delta too", "*", "as above: the records are not counted"),
    Difference(
        "topics with wrong configs",
        "*preallocate=TRUE",
        "*value",
        "a value is shown as it was understood, not as it was typed",
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
        "a log without any time has no largest time; Kafka answers offset 0",
    ),
)


def unexplained(mismatches: Iterable[Mismatch]) -> list[Mismatch]:
    return [one for one in mismatches if not any(row.excuses(one) for row in DIFFERENCES)]
