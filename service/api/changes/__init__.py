"""Changes to what was learned: forget, correct, reconfigure, challengers, and their jobs."""
