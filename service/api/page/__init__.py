"""Routes for the page in a browser, and for the description of the routes."""
