"""The parts of the composition root: each builds the services of one room, and opens nothing."""
