"""The tables below the views: frames and connections."""
