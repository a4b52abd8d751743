"""The input of a job: its table, its columns and its model, opened by the keys of the job file."""
