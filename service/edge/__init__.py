"""The edge is the code between the network and the routes. It decides which requests are accepted, how fast clients
must be, and what is logged.
"""
