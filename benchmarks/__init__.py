"""Reproductions and benchmarks: `python -m benchmarks NAME`."""
