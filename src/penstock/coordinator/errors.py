"""Errors of a coordinator that cannot serve a request; clients look the coordinator up again and retry."""

from penstock.model.errors import Refusal


class CoordinatorLoadInProgress(Refusal):
    code = 14
    meaning = "The coordinator is still loading its log."


class CoordinatorNotAvailable(Refusal):
    code = 15
    meaning = "The coordinator cannot write to its log."


class NotCoordinator(Refusal):
    code = 16
    meaning = "This node is not the coordinator of the group or transactional id."
