"""What runs a model: its worker and journal, the jobs beside it, and the way back to its state after a crash."""
