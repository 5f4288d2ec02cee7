"""The error of a command that was called incorrectly or cannot continue."""


class CommandError(Exception):
    """A message for the user: what failed, why, and what to do next."""
