"""Sources that are read once, into Parquet parts with a record: databases, queries, CSV files."""
