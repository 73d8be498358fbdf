"""Stores the images and files that messages refer to."""
