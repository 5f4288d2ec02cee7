"""What a coordinator answers when it cannot answer. Clients look for it again and retry."""

from penstock.model.errors import Refusal


class CoordinatorLoadInProgress(Refusal):
    code = 14
    meaning = "The coordinator is still reading its log."


class CoordinatorNotAvailable(Refusal):
    code = 15
    meaning = "The coordinator cannot write its log at present."


class NotCoordinator(Refusal):
    code = 16
    meaning = "This node does not coordinate that group or transaction."
