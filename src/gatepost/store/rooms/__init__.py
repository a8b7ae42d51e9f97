"""Rooms, the channels that they are on, and the routes that lead from them to groups."""
