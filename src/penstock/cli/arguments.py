"""Arguments that several commands parse."""

from collections.abc import Sequence
from typing import Annotated

import typer

from penstock.cli.errors import CommandError

SecureOption = Annotated[
    bool,
    typer.Option(
        "--secure",
        help="Encrypt connections and require a login. The first start creates certificates, a user and the "
        "properties for clients in DIR/security.",
    ),
]


def parse_pairs(texts: Sequence[str], *, example: str) -> dict[str, str]:
    """Parse NAME=VALUE arguments."""
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise CommandError(f"Invalid argument '{text}': expected NAME=VALUE, for example {example}.")
        pairs[name.strip()] = value
    return pairs


def parse_list(text: str) -> list[str]:
    """Parse words that are separated by commas."""
    return [word.strip() for word in text.split(",") if word.strip()]
