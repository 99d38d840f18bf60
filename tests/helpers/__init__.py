"""Parts that several tests use: servers and their clients, examples, stores, oracles."""
