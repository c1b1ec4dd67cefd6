"""What everything is made of: presentations, items, calls, estimates; standard library only."""
