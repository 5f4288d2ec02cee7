"""Checks of the reference page against the declarations."""

from pathlib import Path

from penstock.config.broker import BROKER
from penstock.config.reference import page
from penstock.config.topic import TOPIC

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run: python -m penstock.config.reference > docs/configuration.md"


def test_every_option_is_on_the_page() -> None:
    text = page()
    options = [*BROKER.items(), *TOPIC.items()]
    assert not [name for name, option in options if not option.internal and f"`{name}`" not in text]
