"""The command tree, and the conversion of errors to a line on stderr and an exit code.

0: success. 1: failure. 2: usage error. PENSTOCK_DEBUG=1 shows the traceback of an unexpected error.
"""

import os
import sys
from typing import Annotated, NoReturn

import typer

from penstock import __version__
from penstock.actions.errors import ActionError
from penstock.cli import (
    acl,
    bench,
    cert,
    cluster,
    config,
    connection_options,
    console,
    consume,
    demo,
    dlq,
    doctor,
    group,
    hints,
    log,
    pipeline,
    produce,
    profile,
    queue,
    quota,
    sql,
    start,
    token,
    topic,
    txn,
    user,
)
from penstock.cli.errors import CommandError
from penstock.model.errors import PenstockError

app = typer.Typer(
    name="penstock",
    help="Run and manage a durable message broker that speaks the Kafka protocol.",
    epilog="Example: penstock start --data ./data",
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
app.add_typer(queue.app, name="queue")
app.add_typer(dlq.app, name="dlq")
app.add_typer(txn.app, name="txn")
app.add_typer(config.app, name="config")
app.add_typer(quota.app, name="quota")
app.add_typer(profile.app, name="profile")
app.add_typer(user.app, name="user")
app.add_typer(acl.app, name="acl")
app.add_typer(token.app, name="token")
app.add_typer(cert.app, name="cert")
app.add_typer(log.app, name="log")
app.add_typer(pipeline.app, name="pipeline")
app.command(
    "demo",
    epilog=demo.EXAMPLE,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)(demo.demo)
app.command("sql", epilog=sql.EXAMPLE)(sql.sql)
app.command("console", epilog=console.EXAMPLE)(console.console)
app.command("bench", epilog=bench.EXAMPLE)(bench.bench)
app.command("doctor", epilog=doctor.EXAMPLE)(doctor.doctor)

connection_options.add_to(app)


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
        app()
    except ActionError as error:
        _fail(hints.describe(error))
    except (CommandError, PenstockError) as error:
        _fail(str(error))
    except Exception as error:
        if os.environ.get("PENSTOCK_DEBUG"):
            raise
        _fail(explain_unexpected(error))


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
