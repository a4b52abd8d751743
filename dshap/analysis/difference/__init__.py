"""The difference of two cubes: which rows are pairs, sums over them, and the record of it all."""
