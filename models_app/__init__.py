"""Connects to language models: the port, its providers, and the scripted server of test mode."""
