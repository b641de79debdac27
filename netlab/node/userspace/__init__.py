"""The sockets of kube-proxy's mode userspace: what is accepted from clients, what is dialled, and what goes between."""
