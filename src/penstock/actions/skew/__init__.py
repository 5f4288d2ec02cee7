"""How unevenly a topic is used: over its partitions, and over its keys."""
