"""Jobs that a change leaves behind after its answer: retraining learners, and erasing what was forgotten."""
