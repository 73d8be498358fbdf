"""The Django shell: configuration, composition, HTTP, the ways to start. No business logic."""
