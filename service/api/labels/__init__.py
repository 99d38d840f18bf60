"""Routes for labels: the pool, questions and leases, ranking, suspects."""
