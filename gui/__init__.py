"""The desktop app: a client of ``netlab.engine.client`` and of ``netlab.model``, and of nothing else in ``netlab``."""
