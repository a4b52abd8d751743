"""The narrow waist: types, records, rules and errors that every floor speaks; read `types.py`
first."""
