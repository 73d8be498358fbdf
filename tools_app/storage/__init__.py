"""Declares the ports to tool data that all processes share; each storage engine has a folder."""
