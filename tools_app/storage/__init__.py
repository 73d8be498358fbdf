"""Declares the ports to what all processes share about tools; each engine has a folder."""
