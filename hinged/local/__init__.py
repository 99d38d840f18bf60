"""A server's model inside this program: the estimators that need no solver's name.

`model.py` runs the model, `inputs.py` reads tables, texts and dictionaries, and `classifier.py` and `river.py` are the
estimators for scikit-learn and River. They compute what a server computes, because they run the server's code.
"""
