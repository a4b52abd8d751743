"""What-if on a page: models small enough to be computed by its script, and the part of the page."""
