"""Models that the script of a page computes, so that a reader can change the values of a row."""
