"""Errors of share groups, with Kafka's codes."""

from penstock.model.errors import Refusal


class InvalidRecordState(Refusal):
    code = 121
    meaning = "The record state is invalid. The acknowledgement of delivery could not be completed."


class ShareSessionNotFound(Refusal):
    code = 122
    meaning = "The share session was not found."


class InvalidShareSessionEpoch(Refusal):
    code = 123
    meaning = "The share session epoch is invalid."


class FencedStateEpoch(Refusal):
    code = 124
    meaning = "The share coordinator rejected the request because the share-group state epoch did not match."


class ShareSessionLimitReached(Refusal):
    code = 133
    meaning = "The limit of share sessions has been reached."
