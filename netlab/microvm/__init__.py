"""The engine inside a QEMU guest, for what the host's kernel lacks (IPVS above all).

On the host a supervisor, PID 1 of a sandbox like an engine's, runs QEMU, goes on from a snapshot in which the engine
waits for its first frontend, and carries the frontends' connections into the guest. To a frontend it is an engine.
"""
