"""From labelled responses or transcripts to a suite: write, check, confirm, retry, or set aside."""
