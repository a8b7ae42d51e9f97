"""The same store on PostgreSQL, for several gateways at once. Loaded only where `store.url` names a database."""
