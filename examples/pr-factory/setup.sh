#!/bin/sh
# After `groups/` was copied into the home. The supervisor stands above the manager, the manager above the workers.
set -e
gatepost group add factory
gatepost group add factory/manager
gatepost group add factory/manager/worker
gatepost group set factory model=scripted-model
gatepost group set factory/manager model=scripted-model
gatepost group set factory/manager/worker model=scripted-model

# An agent has the skills alone that a person agreed to. What came with its folder is a draft until then.
gatepost skill add factory/manager/worker:review --group factory/manager/worker --yes

# Each pull request is a room, so each has a worker's conversation of its own. Whoever names the bot gets the worker, which
# then stays in the thread (--ttl never). Whoever begins with @supervisor gets the supervisor, in a conversation of its own.
# What is done to a pull request wakes the worker, too, because a route names it.
gatepost route add --match "room=acme/site/issue/* text=/^@supervisor/" --target factory#feedback --ttl 0 --seq 10
gatepost route add --match "room=acme/site/issue/* verb=close|merge|reopen|push" --target factory/manager/worker --seq 15
gatepost route add --match "room=acme/site/issue/* verb=mention" --target factory/manager/worker --ttl never --seq 20
gatepost route add --match "room=acme/site/issue/*" --target factory/manager/worker#observe --seq 30
gatepost route add --match "room=factory" --target factory/manager --seq 40
gatepost route add --match "room=admin" --target factory --seq 50

# The manager reads what was said in the threads, not what the agents did. Workers may leave a thread and come back.
gatepost grant add factory/manager "read_session(level=messages)"
gatepost grant add factory/manager/worker disengage
gatepost grant add factory/manager/worker engage

# Everybody on GitHub may speak to workers, ann alone to the supervisor. Her number: https://api.github.com/users/<login>
gatepost grant allow "github:**" interact --scope factory/manager/worker
gatepost user add github:user/3877663347 --name Ann
gatepost user role github:user/3877663347 admin --folder factory
