"""From a frame to a handler and back: who may connect, which handler answers, in which order replies leave."""
