"""The rows of a job: its table, its columns, its model, and what its file says of them."""
