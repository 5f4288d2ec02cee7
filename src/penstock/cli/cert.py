"""penstock cert: show and renew the certificates that --secure has created."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.errors import CommandError
from penstock.cli.output import Format, FormatOption, show

app = typer.Typer(
    help="Show and renew the certificates of a node or cluster that was started with --secure.",
    epilog="Example: penstock cert show --data ./data",
    no_args_is_help=True,
)

DataOption = Annotated[Path, typer.Option("--data", "-d", metavar="DIR", help="Data folder of the node or cluster.")]


@app.command("show", epilog="Example: penstock cert show --data ./data")
def show_certificates(data: DataOption = Path("./data"), format: FormatOption = Format.TABLE) -> None:
    """Show the certificates: names, issuer and expiry."""
    from penstock.actions.certificates import describe_certificate
    from penstock.actions.secure_folder import SecureFolder

    folder = SecureFolder(data)
    if not folder.exists:
        raise CommandError(f"There is no certificate in {folder.path}. Start with --secure to create one.")
    rows = []
    for path in (folder.authority_file, folder.node_file):
        found = describe_certificate(path.read_text())
        rows.append(
            {
                "file": str(path),
                "subject": found.subject,
                "issuer": found.issuer,
                "hosts": ", ".join(found.hosts),
                "expires": found.not_after.strftime("%Y-%m-%d"),
            }
        )
    show(rows, ["file", "subject", "issuer", "hosts", "expires"], format)


@app.command("renew", epilog="Example: penstock cert renew --data ./data --host broker.example.org")
def renew(
    data: DataOption = Path("./data"),
    host: Annotated[
        list[str] | None, typer.Option("--host", help="Another host name or address for the certificate. Repeatable.")
    ] = None,
) -> None:
    """Issue a new certificate, signed by the same authority, for the same host names and those given.

    Running nodes use it for new connections within a second. Clients need no change.
    """
    from penstock.actions.certificates import describe_certificate
    from penstock.actions.secure_folder import SecureFolder

    folder = SecureFolder(data)
    if not folder.exists:
        raise CommandError(f"There is no certificate in {folder.path}. Start with --secure to create one.")
    hosts = describe_certificate(folder.node_file.read_text()).hosts
    folder.renew(hosts=[*hosts, *(host or ())])
    found = describe_certificate(folder.node_file.read_text())
    print(f"renewed {folder.node_file}, valid until {found.not_after:%Y-%m-%d} for {', '.join(found.hosts)}")
