"""Servers that share a Redis, each the writer of the models that it has claimed (`HINGED_NODE`).

- `members` knows which servers live and which models they own (`known`); it claims, loses and moves models.
- `gate` stands before everything else: a request is answered here, passed on, or its client redirected.
- `passing` passes requests on to the owner over `lines`, `sockets` passes WebSockets on, `portions` limits requests.
- `processes` makes each of several processes of a machine a member, which hands connections to its siblings.
- `figures` measures what models use, `placement` computes where models should be, and `controller` moves them.

The store alone decides what may be written. docs/explanation/scaling.md, docs/adr/0029, 0030 and 0053.
"""
