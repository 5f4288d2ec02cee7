"""Authentication: principals, SASL mechanisms and the identity of nodes. Values in, values out."""
