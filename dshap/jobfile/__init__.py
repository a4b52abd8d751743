"""The checked record of a job file: its tables, their kinds and rules; it runs nothing."""
