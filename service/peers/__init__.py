"""Equal processes at one port (`hinged serve --processes N`).

A supervisor starts the processes and restarts processes that end; it answers no requests. Each process is a complete
server. Each model has one owner among the processes (ring.py), and only the owner writes the model. Other processes may
follow the model's log (following.py) and answer predictions. A process that cannot answer a request hands the
connection over to the owner (handing.py). See docs/explanation/scaling.md and docs/adr/0052.
"""
