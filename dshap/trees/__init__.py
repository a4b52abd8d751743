"""Tree ensembles: a record of the nodes, parsed from any library, and exact values from it."""
