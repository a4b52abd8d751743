"""Tree ensembles: one record of their nodes, parsed from any library, and exact values of it."""
