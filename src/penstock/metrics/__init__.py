"""What a node can tell of itself: every metric declared once, counted in plain integers, written out when asked for."""
