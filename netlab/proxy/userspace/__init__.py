"""kube-proxy's first mode (until Kubernetes 1.25): rules lead to a listener of the proxy, which dials the endpoint."""
