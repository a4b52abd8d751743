"""Altair charts, drawn from the same records as the pictures of matplotlib."""
