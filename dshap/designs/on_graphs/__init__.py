"""Designs on graphs: coalitions that are connected, or within the neighbourhood of a player."""
