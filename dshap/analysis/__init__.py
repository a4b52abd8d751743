"""Numbers from finished cubes and from two tables, as records that draw nothing."""
