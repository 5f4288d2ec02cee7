"""Errors that only groups of the consumer protocol (KIP-848) return, with Kafka's codes."""

from penstock.model.errors import Refusal


class FencedMemberEpoch(Refusal):
    code = 110
    meaning = "The member epoch is fenced by the group coordinator; abandon all partitions and rejoin."


class UnreleasedInstanceId(Refusal):
    code = 111
    meaning = "The instance id is still in use by another member of the group."


class UnsupportedAssignor(Refusal):
    code = 112
    meaning = "The server does not support the assignor."


class StaleMemberEpoch(Refusal):
    code = 113
    meaning = "The member epoch is stale; use the one from the latest heartbeat."
