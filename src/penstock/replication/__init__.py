"""The partitions on a node: their roles, their high watermarks, and the requests that wait on them."""
