"""Where journals are kept: one adapter a file."""
