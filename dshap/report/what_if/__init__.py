"""Models that the script of a page computes when a reader changes the values of a row (what-if)."""
