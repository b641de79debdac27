"""The lab's files: read, changed, and built again."""
