"""Measuring methods on data sets, seed by seed: runs, records, tables and the paper's figure. Not in the wheel."""
