"""Platforms that run on this machine: small servers that speak a platform's documented API, with people in them, a
record of what can be seen there, and faults on request. `gatepost channel emulate` starts one to try a channel out."""
