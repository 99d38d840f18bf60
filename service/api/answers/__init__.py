"""Routes for the results of labelling: answers, examples, and the pool's predictions."""
