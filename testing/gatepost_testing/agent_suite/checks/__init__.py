"""Checks of the suite, by subject. Every function `check_…` here is one grade."""
