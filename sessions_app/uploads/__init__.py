"""Takes uploads while they arrive, and sends files in pieces."""
