"""The command tree and the one place where errors become a line and an exit code.

0: done. 1: it could not be done, one line on stderr says why. 2: the command was misspelled.
Set PENSTOCK_DEBUG=1 to see the traceback of an error that should not have happened.
"""

import os
import sys
from typing import Annotated, NoReturn

import typer

from penstock import __version__
from penstock.cli import (
    cluster,
    config,
    consume,
    demo,
    dlq,
    doctor,
    group,
    log,
    pipeline,
    produce,
    properties,
    quota,
    sql,
    start,
    topic,
    txn,
)
from penstock.cli.errors import CommandError
from penstock.model.errors import PenstockError

app = typer.Typer(
    name="penstock",
    help="A durable message broker that speaks Kafka's protocol.",
    epilog="Example: penstock start --data ./data   and in another shell   penstock topic create orders",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("start", epilog=start.EXAMPLE)(start.start)
app.add_typer(topic.app, name="topic")
app.command("produce", epilog=produce.EXAMPLE)(produce.produce)
app.command("consume", epilog=consume.EXAMPLE)(consume.consume)
app.add_typer(cluster.app, name="cluster")
app.add_typer(group.app, name="group")
app.add_typer(dlq.app, name="dlq")
app.add_typer(txn.app, name="txn")
app.add_typer(config.app, name="config")
app.add_typer(quota.app, name="quota")
app.add_typer(log.app, name="log")
app.add_typer(pipeline.app, name="pipeline")
app.command(
    "demo",
    epilog=demo.EXAMPLE,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)(demo.demo)
app.command("sql", epilog=sql.EXAMPLE)(sql.sql)
app.command("doctor", epilog=doctor.EXAMPLE)(doctor.doctor)

properties.add_to(app)


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """A durable message broker that speaks Kafka's protocol."""
    if version:
        typer.echo(f"penstock {__version__}")
        raise typer.Exit()


def main() -> None:
    try:
        app()
    except (CommandError, PenstockError) as error:
        _fail(str(error))
    except Exception as error:
        if os.environ.get("PENSTOCK_DEBUG"):
            raise
        _fail(explain_unexpected(error))


def explain_unexpected(error: Exception) -> str:
    """Put an error that no command expected into one line."""
    # The client library is imported by now if the error is one of its own; asking for it
    # here would make every failure pay for the import.
    library = sys.modules.get("confluent_kafka")
    if library is not None and isinstance(error, library.KafkaException):
        from penstock.actions.connection import explain

        return explain(error.args[0])
    if isinstance(error, OSError):
        return f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"
    return f"{type(error).__name__}: {error} (PENSTOCK_DEBUG=1 shows where)"


def _fail(message: str) -> NoReturn:
    print("penstock: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(1)


if __name__ == "__main__":
    main()
