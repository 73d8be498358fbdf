"""Language models: the port to them, their providers, and the scripted one of test mode."""
