"""Commands: what may be asked of a model. A command changes nothing itself: it checks the request and returns events
that change the model.
"""
