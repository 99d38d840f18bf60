"""Several servers that share one Redis (`HINGED_NODE`). Each server writes only the models that it has claimed.

- `members` records which servers are alive and which models they own (`known`); it claims, gives up and moves models.
- `gate` gets each request first. It lets this server answer, forwards the request, or redirects the client. It limits
  the number of forwarded requests.
- `passing` forwards requests to the model's owner over persistent connections (`lines`). `sockets` forwards
  WebSockets.
- `processes` makes each process of a machine a member. Such a process hands connections over to its siblings.
- `figures` measures the memory and load of models. `placement` computes where models should run. `controller` moves
  the models.

Only the store decides which server may write a model. See docs/explanation/scaling.md, docs/adr/0029, 0030 and 0053.
"""
