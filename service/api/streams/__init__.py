"""Routes that stay open: a model's event stream, and its WebSocket."""
