"""Review of generated items: decisions that are only ever added, the pages, and the suite that results."""
