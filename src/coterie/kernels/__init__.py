"""What is done to a block of rows: the same few functions for every kind of processor."""
