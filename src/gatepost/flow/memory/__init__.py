"""MEMORY.md: what everybody may know of an agent, as a file in its folder that people and agents may edit."""
