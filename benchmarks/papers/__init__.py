"""The papers' main tables, with our figures beside the papers'.

    python -m benchmarks.papers [--only TABLE...] [--seeds 3] [--jobs 2]    train what is missing
    python -m benchmarks.papers --list                                      what is missing, and its cost
    python -m benchmarks.papers --page                                      docs/papers.md from the results

The runs are those of `benchmarks.claims`: the same corpus, settings, seeds and folder (`--runs`), so that a
run of either counts for both. When the seeds of a row are trained, each gets a line in
`benchmarks/results/papers.jsonl`; a run whose line has all scores of its rows is not repeated. The last line
of standard output is one JSON object.
"""
