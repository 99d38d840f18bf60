"""Routes for Label Studio as an ML backend: predictions for its tasks, and its annotations as labels."""
