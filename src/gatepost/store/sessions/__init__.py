"""Groups, their conversations and turns, and the traces of what was done in them."""
