"""What may be asked of a model: each command is checked against it and becomes events, and changes nothing itself."""
