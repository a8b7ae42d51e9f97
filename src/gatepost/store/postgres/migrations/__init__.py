"""What some of the numbered migrations are on PostgreSQL, under the same names. All others are the same on both."""
