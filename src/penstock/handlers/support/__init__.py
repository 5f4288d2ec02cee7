"""Code that several handlers share: their context, replies, forwarding to the controller, views of the metadata."""
