"""The steps of a run: from its source to its cubes and its sinks, as far as a scope does them."""
