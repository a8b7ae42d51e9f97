"""Requests that wait for a person: who is asked, what they may answer, and what follows."""
