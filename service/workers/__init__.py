"""Processes that divide the models of one machine among them (`hinged serve --workers N`).

The supervisor listens, starts the workers, starts again what ends, and answers nothing. Each worker is a whole server:
it takes connections of the one port, answers for its own models, and passes on what is another's to answer
(cluster/siblings.py). docs/scaling.md, docs/adr/0031.
"""
