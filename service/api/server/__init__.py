"""Routes for the server itself: health, metrics, tickets."""
