"""Shared by the protocols: ids, errors, request bodies, images and files."""
