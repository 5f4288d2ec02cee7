"""Groups of the consumer protocol (KIP-848): heartbeats, and an assignment by the coordinator."""
