"""Errors of the group coordinator, with Kafka's codes."""

from penstock.model.errors import Refusal


class OffsetMetadataTooLarge(Refusal):
    code = 12
    meaning = "The metadata of the offset is longer than offset.metadata.max.bytes."


class IllegalGeneration(Refusal):
    code = 22
    meaning = "The generation is not the group's current one."


class InconsistentGroupProtocol(Refusal):
    code = 23
    meaning = "The member has no protocol in common with the group."


class InvalidGroupId(Refusal):
    code = 24
    meaning = "The group id is not valid."


class UnknownMemberId(Refusal):
    code = 25
    meaning = "The group has no such member."


class InvalidSessionTimeout(Refusal):
    code = 26
    meaning = "The session timeout is outside the broker's limits."


class RebalanceInProgress(Refusal):
    code = 27
    meaning = "The group is rebalancing; join again."


class NonEmptyGroup(Refusal):
    code = 68
    meaning = "The group has members."


class GroupIdNotFound(Refusal):
    code = 69
    meaning = "There is no such group."


class MemberIdRequired(Refusal):
    code = 79
    meaning = "Join again with the member id that was just given."


class GroupMaxSizeReached(Refusal):
    code = 81
    meaning = "The group has reached its maximum size."


class FencedInstanceId(Refusal):
    code = 82
    meaning = "Another member now uses the instance id."


class UnstableOffsetCommit(Refusal):
    code = 88
    meaning = "An open transaction may replace the offset; try again."


class GroupSubscribedToTopic(Refusal):
    code = 86
    meaning = "The group is subscribed to the topic."
