"""Examples: learned, predicted, and the finishing step."""
