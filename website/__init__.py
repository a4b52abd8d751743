"""The site: `python -m website` makes build/site of the repository's pages, notebooks and docstrings."""
