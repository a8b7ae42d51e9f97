"""What the provider acp is made of: the protocol, what an agent says in it, and what it holds of a conversation."""
