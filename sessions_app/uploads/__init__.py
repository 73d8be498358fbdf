"""Streams uploads and downloads of attachments."""
