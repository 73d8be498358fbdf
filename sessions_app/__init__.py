"""Sessions: messages, settings, and the files they are kept in. The lowest app."""
