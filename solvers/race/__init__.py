"""A race of machines inside one model."""
