"""Workarounds for compilers: each file states its reason, its measurement and its switch."""
