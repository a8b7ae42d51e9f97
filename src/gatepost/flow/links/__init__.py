"""Chat links and webhooks: tokens that lead a stranger or a program to a room of a group."""
