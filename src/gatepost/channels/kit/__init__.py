"""Code that adapters share: HTTP with one reading of what went wrong, markup for each platform."""
