"""Who computes next: threads for the models, and turns on the processors."""
