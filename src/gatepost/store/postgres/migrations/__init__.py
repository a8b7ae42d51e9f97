"""The PostgreSQL forms of those numbered migrations that differ there, under the same names. All others are the same on
both."""
