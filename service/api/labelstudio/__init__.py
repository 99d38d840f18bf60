"""Routes that make the server an ML backend of Label Studio. The server predicts tasks and learns annotations as
labels.
"""
