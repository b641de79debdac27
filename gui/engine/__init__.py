"""The app's side of the engine: one connection, and what is known of the lab behind it."""
