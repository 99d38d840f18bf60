"""Labels: the pool, questions and leases, ranking, suspects."""
