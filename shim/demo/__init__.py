"""The demo: two small legacy servers, the shim in front, an old and a new client on the same jobs."""
