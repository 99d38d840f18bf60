"""The engine runs models, each with a worker, a journal and jobs. After a crash, the engine recovers the models."""
