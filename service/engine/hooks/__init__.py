"""Calls the URLs of a model's hooks.

`hosts` says which URLs and addresses may be called. `calls` sends one message. `posting` signs it, and connects to the
addresses that were checked. `delivery` decides which message comes next, and when a call is repeated. Only the worker
of a model delivers, so followers do not.
"""
