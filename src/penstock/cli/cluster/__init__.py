"""penstock cluster: start a local cluster and manage the nodes of any cluster."""

from penstock.cli.cluster.commands import app

__all__ = ["app"]
