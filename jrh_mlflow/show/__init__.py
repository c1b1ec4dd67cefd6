"""Results as self-contained HTML files: no script, no request, every text escaped."""
