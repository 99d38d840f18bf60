"""Routes for the browser pages: the page where people watch and label, and the description of the routes."""
