"""Who runs models: one module (or family of modules) per provider."""
