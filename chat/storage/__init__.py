"""Declares the ports to where turns are recorded; each engine has a folder."""
