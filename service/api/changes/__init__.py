"""Routes that change what was learned: forget, correct, reconfigure, manage challengers, and show jobs."""
