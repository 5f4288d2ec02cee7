"""Connections and requests: connection limits, dispatch of frames to handlers, and the order of responses."""
