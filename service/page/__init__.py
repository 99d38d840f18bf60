"""The browser interface at /ui: its files, and the content security policy that the server sends with them.

The server sends `static/` unchanged: ES modules, no build step. `static/vendor/SHA256SUMS` lists the vendored
libraries; `make vendor` fetches them again. The page loads nothing from any other host.
"""
