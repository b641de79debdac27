"""The walk: one player, and the views that are bound to the same step."""
