"""A broker's place in its cluster: registered, heard of, and supplied by the active controller."""
