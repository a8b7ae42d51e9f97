"""People: identities, how they sign in, and what is known of them."""
