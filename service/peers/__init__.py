"""Equal processes behind one port (`hinged serve --processes N`).

A supervisor starts them, restarts those that end, and answers nothing. Each process is a whole server. Each model has
one owner among them (ring.py), which alone writes it; other processes may follow the model's log (following.py) and
answer predictions. A request that cannot be answered where it arrives is handed to the owner with its connection
(handing.py). docs/explanation/scaling.md, docs/adr/0052.
"""
