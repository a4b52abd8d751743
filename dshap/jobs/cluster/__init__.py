"""The cluster of a job: its executor, its objects of Kubernetes, and the time that a queue gives."""
