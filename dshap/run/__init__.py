"""One run from plan to quality: its steps, what identifies it, and the states that later runs use
again."""
