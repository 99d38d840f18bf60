"""Clients' data, parsed and checked: examples, labels, named features, batches, configurations."""
