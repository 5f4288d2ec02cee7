"""penstock cluster: start a local cluster, and look after one that runs anywhere."""

from penstock.cli.cluster.commands import app

__all__ = ["app"]
