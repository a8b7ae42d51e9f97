"""The pages of groups on the web, and the addresses by which people sign in."""
