"""How a command says no: one line for a person, with the next step in it."""


class CommandError(Exception):
    """The command cannot go on. The message says why and what to do next."""
