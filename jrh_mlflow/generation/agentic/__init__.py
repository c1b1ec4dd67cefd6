"""Transcripts edited by planner, editor, summariser and verifier: tests of judges that watch agents."""
