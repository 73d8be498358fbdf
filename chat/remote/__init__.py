"""Follows the turns of other processes and recovers those of dead ones."""
