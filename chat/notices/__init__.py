"""Tells people of questions, and of turns that ended, by webhooks (docs/notifications.md)."""
