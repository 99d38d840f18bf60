"""Servers that share a Redis, each the writer of the models that it has claimed (`HINGED_NODE`).

`members` knows who lives and who owns what (`known`), and claims, loses and moves models; `gate` stands before all else
and answers a request here, passes it on, or says where to ask. `relay` is the short way across, from a client's
connection over one of the `lines` to the owner, and for WebSockets `sockets`; `passing` is the way of what is unusual.
`figures` tells what models take. `placement` works out what comes where, and `controller` lets models move by it, from
outside of the servers. What may be written is decided in the store alone. docs/explanation/scaling.md,
docs/adr/0029 and 0030.
"""
