"""The Raft core of the metadata quorum, pure: events in, effects out."""
