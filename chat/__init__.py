"""The conversation: a turn, from the user's message to the final answer."""
