"""Skills under lock: read from where they come, shown to a person, kept by their digest, and mounted read-only."""
