"""One file for every library: its own dump of a model as a `TreeEnsemble`."""
