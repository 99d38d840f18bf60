"""What may be asked of a model. None of it changes the model: what is to change it is checked and becomes events."""
