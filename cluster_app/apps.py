"""Plugs Redis and object stores into the server, if they are configured."""

from mochi_project.app import MochiApp


class ClusterApp(MochiApp):
    """Describes the app."""

    name = "cluster_app"
