"""What runs a dataset's Python code: worker processes, threads, or the caller of next()."""
