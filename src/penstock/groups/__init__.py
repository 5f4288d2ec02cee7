"""Consumer groups and committed offsets: the pure state machine of one partition of `__consumer_offsets`."""
