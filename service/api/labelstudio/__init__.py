"""Label Studio's protocol of ML backends: predictions for its tasks, and its annotations as labels."""
