"""The durable table of tasks: who owns each, where it lives, what was last seen."""
