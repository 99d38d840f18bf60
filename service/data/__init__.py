"""What users send, read and checked: examples, labels, named features, batches, configurations."""
