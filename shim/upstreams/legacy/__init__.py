"""The speaker for servers of the old API: sessions, their streams, and tasks that live in them."""
