"""What labels have come to: answers, examples, the pool as the model sees it."""
