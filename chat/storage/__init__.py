"""Declares the ports of the stores that turns use; each storage engine has a folder."""
