"""Attributors: rows in, attributions out.  Designs meet value functions here and nowhere else."""
