"""What the suite checks, by subject. Every function `check_…` here is one grade."""
