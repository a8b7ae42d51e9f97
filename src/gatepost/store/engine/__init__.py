"""The engine: connections, the writer and its queue, migrations, copies and checks of a store's file."""
