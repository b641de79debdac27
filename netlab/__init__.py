"""kube-netlab: a network lab in which Kubernetes Services are real and visible."""
