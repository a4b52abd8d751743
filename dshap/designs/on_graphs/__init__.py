"""Designs on graphs: coalitions that are connected, or lie in the neighbourhood of a player."""
