"""The page in a browser: what it consists of, and under which policy it is shown.

`static/` is served as it stands: ES modules, no build step. Its vendored libraries are listed with their SHA-256 in
`static/vendor/SHA256SUMS`; `make vendor` fetches them anew. Nothing is loaded from any other host.
"""
