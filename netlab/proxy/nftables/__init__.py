"""kube-proxy's nftables mode: one table a family, whose verdict maps lead to a chain for each Service port."""
