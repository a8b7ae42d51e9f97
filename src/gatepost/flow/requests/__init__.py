"""What waits for a person: who is asked, what they may answer, and what follows."""
