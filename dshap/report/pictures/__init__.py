"""Pictures of cubes, drawn from the records beside this folder."""
