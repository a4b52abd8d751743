"""Types, records, rules and errors that every other module uses; read `types.py` first."""
