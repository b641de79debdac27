"""How the app looks: colours, fonts, icons."""
