"""From labelled responses to a reliability suite: write, check, confirm, retry, or set aside with the reason."""
