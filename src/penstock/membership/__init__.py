"""A broker's membership in its cluster: registration, heartbeats and producer ids from the active controller."""
