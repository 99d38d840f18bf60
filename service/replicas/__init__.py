"""Processes beside the server that answer predictions (`hinged serve --readers N`).

Each folds the same logs to the same states, takes connections of the same port, answers predictions and rankings from
its own copy, and hands everything else on to the server, who alone writes. docs/scaling.md, docs/adr/0027.
"""
