"""Commands that people give in chats, one small file for each family. `contract.py` says how to write one."""
