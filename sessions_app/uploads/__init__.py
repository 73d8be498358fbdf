"""Receives uploads as they arrive, and sends files in pieces."""
