"""kube-proxy: which packets go where, as values; one package for each mode. Pure up to ``netlab.kernel``."""
