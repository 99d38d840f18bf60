"""The engine runs models: each has a worker and a journal, jobs that run at the same time, and recovery
after a crash.
"""
