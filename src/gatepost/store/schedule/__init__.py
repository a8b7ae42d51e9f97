"""Tasks and texts for later, and how long things are kept."""
