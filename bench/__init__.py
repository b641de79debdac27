"""Benchmarks: each figure beside the floor that the same machine reaches with bare tools, in one run."""
