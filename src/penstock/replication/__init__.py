"""Partitions as this node holds them: their role, their marks, and the requests that wait on them."""
