"""Attributors compute attributions of rows.  Only this package joins designs and value functions."""
