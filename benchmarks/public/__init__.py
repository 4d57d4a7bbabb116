"""The public names: which they are, whether they are documented, and what changed since they were written down."""
