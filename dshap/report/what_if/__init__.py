"""What-if: models that the script of a page computes when a reader changes a row's values."""
