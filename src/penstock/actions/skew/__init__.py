"""How unevenly records are spread over the partitions and keys of a topic."""
