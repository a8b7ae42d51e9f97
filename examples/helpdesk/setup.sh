#!/bin/sh
# After `groups/` was copied into the home. One agent at the desk, two behind it.
set -e
gatepost group add support
gatepost group add support/billing
gatepost group add support/network

# Everybody may write to the desk.
gatepost room policy terminal:desk public
gatepost route add --match "room=desk" --target support --seq 10
