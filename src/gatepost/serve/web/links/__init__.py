"""Pages for tokens that whoever holds them may use: webhooks of programs, invitations, and pairing links."""
