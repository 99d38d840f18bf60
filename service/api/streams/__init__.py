"""Routes that stay open: the event stream of a model, and its WebSocket."""
