"""Maps exceptions to HTTP statuses and the one error envelope."""
