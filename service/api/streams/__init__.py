"""What stays open: a model's events, and its WebSocket."""
