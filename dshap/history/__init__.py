"""The runs that a job has left in its store: folders, records, baselines, and the history of rows."""
