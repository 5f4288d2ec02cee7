"""Client quotas: rate limits, and how long a client that exceeds one is throttled."""
