"""Keeps what is short-lived of conversations in Redis or Valkey, for all machines."""
