"""What is made of decision values: probabilities, figures, and which example is worth a label next."""
