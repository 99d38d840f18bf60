"""The engine runs models. Each model has a worker, a journal and jobs, and the engine recovers it after a crash."""
