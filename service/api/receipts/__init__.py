"""Routes for receipts: the newest head of a model's tree, and proofs."""
