"""What of a conversation fits into a request. Pure."""
