"""Stores the short-lived data of turns in Redis or Valkey, for all machines."""
