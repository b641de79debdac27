"""kube-proxy's ipvs mode: virtual servers, addresses, sets and rules as values, their difference, and its order."""
