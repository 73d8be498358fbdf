"""Keeps in Redis or Valkey what several machines share (extra ``cluster``)."""
