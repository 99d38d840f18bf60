"""Scheduling: which model computes next. Threads for the models, and turns on the processors."""
