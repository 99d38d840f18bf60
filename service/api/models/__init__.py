"""Models: made, listed, described, deleted."""
