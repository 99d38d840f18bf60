"""Routes for examples: learn, predict, and the finishing step."""
