"""Reproductions and benchmarks: `python -m privfcd.studies NAME`."""
