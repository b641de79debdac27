"""The same probe in several modes of kube-proxy, side by side."""
