"""Routes for alerts: list and acknowledge the decisions for a class with a capacity."""
