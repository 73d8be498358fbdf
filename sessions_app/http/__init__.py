"""Declares the bodies of requests and responses about sessions."""
