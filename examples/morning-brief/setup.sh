#!/bin/sh
# After `groups/` was copied into the home.
set -e
gatepost group add brief
gatepost group set brief model=scripted-model
gatepost route add --match "room=morning" --target brief --seq 10
