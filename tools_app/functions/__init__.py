"""Imports users' functions and describes them as tools."""
