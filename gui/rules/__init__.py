"""A node's rules: as a tree that follows jumps, with the walk's path in it, and as the tool prints them."""
