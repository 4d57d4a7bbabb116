"""The tables and figures of Fassy et al. (2025), arXiv 2512.01708, from our code, beside the paper's own figures."""
