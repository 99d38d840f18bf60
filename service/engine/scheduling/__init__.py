"""Scheduling decides which model computes next. Threads run the models, and turns share the processors."""
