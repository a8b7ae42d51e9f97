"""The upkeep of a home: checks before a start, the state of the store, and the removal of old rows and files."""
