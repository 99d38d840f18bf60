"""What a change still has to do after its answer: teaching learners anew, erasing what was forgotten."""
