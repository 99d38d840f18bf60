"""The engine runs models: a worker and a journal for each, jobs beside them, and recovery after a crash."""
