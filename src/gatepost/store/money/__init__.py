"""Budgets, costs and reservations, and the checks that they add up."""
