"""The lab as a drawing: clients, router, nodes with their hooks and Pods, and Services beside them."""
