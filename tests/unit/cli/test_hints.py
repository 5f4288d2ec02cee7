import pytest

from penstock.actions.errors import ActionError, ActionErrors, unknown_topic
from penstock.cli.hints import describe


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            ActionError("Connection refused by a:1.", code="CONNECTION_REFUSED"),
            "Connection refused by a:1. Start a broker with 'penstock start' or pass another address with --bootstrap.",
        ),
        (unknown_topic("a"), "Topic 'a' does not exist. Run 'penstock topic list' to list the topics."),
        (ActionError("It failed."), "It failed."),
        (ActionError("It failed.", code="NEVER_HEARD_OF"), "It failed."),
    ],
)
def test_the_code_of_an_error_selects_the_next_step(error: ActionError, text: str) -> None:
    assert describe(error) == text


def test_each_of_several_errors_has_its_next_step() -> None:
    text = describe(ActionErrors([unknown_topic("a"), ActionError("It failed.")]))
    assert text == "Topic 'a' does not exist. Run 'penstock topic list' to list the topics. | It failed."
