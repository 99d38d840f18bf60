"""Routes for the keys of the key file: list, make and revoke them."""
