"""Measurements that are no suite: each has a line of its own under results."""
