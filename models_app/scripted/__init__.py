"""The scripted model server behind test mode (seed 002): offline, and the same each time."""
