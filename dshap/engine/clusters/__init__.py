"""Kinds of clusters, one file each: a function that starts or reaches one, and gives its client."""
