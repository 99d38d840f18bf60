"""Servers that share a Redis, each the writer of the models that it has claimed (`HINGED_NODE`).

`members` knows who lives and who owns what, and claims, loses and moves models; `gate` stands before all else and
answers a request here, passes it on, or says where to ask. `relay` is the short way across, from a client's connection
over one of the `lines` to the owner, and for WebSockets `sockets`; `passing` is the way of what is unusual. What may be
written is decided in the store alone. docs/scaling.md, docs/adr/0029.
"""
