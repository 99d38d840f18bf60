"""Jobs that a change starts and that end after its answer: retraining learners and erasing forgotten examples."""
