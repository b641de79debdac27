"""The reader's language, switchable while the app runs."""
