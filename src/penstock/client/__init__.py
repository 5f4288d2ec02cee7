"""Connections from this node to the others."""
