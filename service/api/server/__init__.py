"""Routes for the server itself: health, metrics, keys and tickets."""
