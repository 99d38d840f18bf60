"""The server itself: health, metrics, tickets."""
