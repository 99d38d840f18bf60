"""What users import and run: the client and the command line."""
