"""The main window: wiring, commands, and the bars around the views."""
