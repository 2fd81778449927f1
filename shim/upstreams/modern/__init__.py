"""Servers of 2026-07-28: stateless requests, tasks by SEP-2663."""
