"""Share groups (KIP-932): records in flight, share sessions, and the coordinator of their state."""
