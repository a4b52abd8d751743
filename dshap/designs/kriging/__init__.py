"""Kriging: a Gaussian process of games, learned from the values of few coalitions."""
