"""From calls to decisions: votes, orders, and the composite a sweep compares."""
