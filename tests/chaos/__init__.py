"""Faults at random moments of jobs on the command line: `python -m tests.chaos --help`."""
