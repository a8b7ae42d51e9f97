"""Chat links, published paths and the overview of the web pages."""
