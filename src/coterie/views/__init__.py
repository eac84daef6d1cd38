"""Whatever the user passes, as named and validated views that are read block by block."""
