"""Keys of rows: hashes and digests, joins in bounded memory, and keys that occur twice."""
