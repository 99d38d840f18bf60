"""The edge is the code between the network and the routes. It decides who may come in and how fast, and
what is logged.
"""
