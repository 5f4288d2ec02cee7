"""Consumer groups and committed offsets: pure deciding over one shard of `__consumer_offsets`."""
