"""Several gateways on one store: who lives, who does what, and what becomes of what a dead one had."""
