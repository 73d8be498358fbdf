"""Declares the storage ports that turns use; each storage engine has a folder."""
