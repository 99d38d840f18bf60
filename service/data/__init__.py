"""Parse and check clients' data: examples, labels, named features, batches and configurations."""
