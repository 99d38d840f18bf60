"""The edge stands between the network and the routes: who may come in, how fast, and what is logged."""
