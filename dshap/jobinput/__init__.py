"""The input of a job: its table, its columns, and its model, as its file names them."""
