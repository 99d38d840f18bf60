"""Servers that share a Redis, each the writer of the models that it has claimed (`HINGED_NODE`).

`members` knows who lives and who owns what, and claims, loses and moves models; `gate` stands before all else and
answers a request here, passes it on, or says where to ask; `passing` carries it across; `figures` tells of it. What
may be written is decided in the store alone. docs/scaling.md, docs/adr/0029.
"""
