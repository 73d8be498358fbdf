"""What stands between the socket and the views: uvicorn's protocol, the guard, Django's handler."""
