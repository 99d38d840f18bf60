"""Servers that share a Redis, each the writer of the models that it has claimed (`HINGED_NODE`).

- `members` knows which servers live and which models they own (`known`); it claims, loses and moves models.
- `gate` stands before everything else: it answers a request here, passes it on, or redirects the client.
- `relay` passes usual requests from a client's connection over one of the `lines` to the owner, and WebSockets over
  `sockets`; `passing` passes on everything unusual; `portions` limits both.
- `figures` measures what models use, `placement` computes where models should be, and `controller` moves them.

The store alone decides what may be written. docs/explanation/scaling.md, docs/adr/0029 and 0030.
"""
