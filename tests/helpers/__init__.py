"""What the tests are made of: servers and their clients, examples, stores, oracles."""
