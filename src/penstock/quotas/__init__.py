"""How much a client may ask of the cluster in a time, and how long it is muted when it asks for more."""
