"""What the tests of the server itself have in common: its routes are imported before them."""

from mochi_project import urls  # noqa: F401 - so that no test imports the routes on the loop
