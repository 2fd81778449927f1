"""The hub: one picture of a task, the dialects' tables, and the way from one to the other. Pure."""
