"""Share groups (KIP-932): members, assignment, and which share partitions have state."""
