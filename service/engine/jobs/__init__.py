"""Jobs run after the answer to the change that starts them. They retrain learners and erase forgotten examples."""
