"""The command tree, and the conversion of errors to a line on stderr and an exit code.

0: success. 1: failure. 2: usage error. PENSTOCK_DEBUG=1 shows the traceback of an unexpected error.
"""

import os
import sys
from typing import Annotated, NoReturn

import typer

from penstock import __version__
from penstock.actions.errors import ActionError
from penstock.cli import hints
from penstock.cli.command_tree import CommandTree
from penstock.cli.errors import CommandError
from penstock.model.errors import PenstockError

app = typer.Typer(
    name="penstock",
    cls=CommandTree,
    help="Run and manage a durable message broker that speaks the Kafka protocol.",
    epilog="Example: penstock start --data ./data",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False) -> None:
    """Run and manage a durable message broker that speaks the Kafka protocol."""
    if version:
        typer.echo(f"penstock {__version__}")
        raise typer.Exit()


def main() -> None:
    # kio builds test strategies for its types if hypothesis is installed, which takes longer than most commands and
    # leaves a folder in the working directory.
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    try:
        try:
            app()
        finally:
            _flush_output()
    except ActionError as error:
        _fail(hints.describe(error))
    except (CommandError, PenstockError) as error:
        _fail(str(error))
    except Exception as error:
        if os.environ.get("PENSTOCK_DEBUG"):
            raise
        _fail(explain_unexpected(error))


def _flush_output() -> None:
    """Write what is left of the output, which Python would do later, with an error that no user understands."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            # The reader has what it wants, as in `penstock topic list | head -n 1`.
            sys.exit(1)
        raise


def explain_unexpected(error: Exception) -> str:
    """Return one line for an error that no command expected."""
    # An error of the client library exists only if the library is imported; importing it here would be slow.
    library = sys.modules.get("confluent_kafka")
    if library is not None and isinstance(error, library.KafkaException):
        from penstock.actions.librdkafka import action_error

        return hints.describe(action_error(error.args[0]))
    if isinstance(error, OSError):
        return f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"
    return f"{type(error).__name__}: {error} (set PENSTOCK_DEBUG=1 for a traceback)"


def _fail(message: str) -> NoReturn:
    print("penstock: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(1)


if __name__ == "__main__":
    main()
