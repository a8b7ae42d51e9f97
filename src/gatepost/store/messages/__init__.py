"""Messages and files on their way in and out."""
