"""Counts in sentences."""


def count_of(number: int, noun: str) -> str:
    """Return `1 record`, or `2 records`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
