"""Secure sums: the coordinator learns the sum of the parties' whole numbers, and no party's own. See `seat`."""
