"""The page in a browser, and the description of the routes."""
