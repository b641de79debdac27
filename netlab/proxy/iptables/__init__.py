"""kube-proxy's iptables mode: rules as values, their difference, and the text that applies it."""
