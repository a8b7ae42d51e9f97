"""People as the store knows them: the groups and routes they get, their traces, and the erasure of these."""
