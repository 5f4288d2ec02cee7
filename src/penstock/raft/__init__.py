"""Consensus among the voters of the metadata quorum, pure: events in, effects out."""
