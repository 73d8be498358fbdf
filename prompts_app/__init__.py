"""System prompt files: ``.md`` and ``.txt`` files in one directory."""
