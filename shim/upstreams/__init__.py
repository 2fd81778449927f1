"""The servers behind the shim: how they are reached and spoken to."""
