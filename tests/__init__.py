"""The tests; imported as a package so that every part finds the helpers beside this file."""
