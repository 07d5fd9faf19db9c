"""The papers' claims, tested again on GENIA with MiniLM.

    python -m benchmarks.claims                        list the claims and their results
    python -m benchmarks.claims NAME... [--train]      judge claims; --train makes the runs they need
    python -m benchmarks.claims --all [--train]
    python -m benchmarks.claims --page                 docs/claims.md from the results

A claim is judged by models that differ in one setting and share seeds and data. Runs are in a folder
(`--runs`, by default `claim-runs`), shared by claims, and resume where they were interrupted. Each result is
a JSON file in `benchmarks/claims/results`, and the last line of standard output has them all.
"""
