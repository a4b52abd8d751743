"""One run from plan to quality: its steps, its identity, and states that later runs reuse."""
