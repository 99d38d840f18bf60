"""Parts that the tests share: servers and their clients, examples, stores, oracles."""
