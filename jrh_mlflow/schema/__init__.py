"""What everything is made of: presentations, items, calls, estimates. Imports nothing but the standard library."""
