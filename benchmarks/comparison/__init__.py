"""What the comparisons of NUTS share: problems, tools, a worker for each, and reports."""
