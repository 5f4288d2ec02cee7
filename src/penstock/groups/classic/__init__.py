"""Groups of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and an assignment by the leader."""
