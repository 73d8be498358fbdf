"""Moves sessions with their attachments: zip files, written and taken in (docs/attachments.md)."""
