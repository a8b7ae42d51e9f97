"""Groups: how they are made and removed, and the files in their folders that people edit."""
