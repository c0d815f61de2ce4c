"""The programs that are run with and without the pool, by kind.

Each is a function of a Run (job.py) that makes its steps and returns what is compared at the end:
name to tensors, or to a string that stands for them. Nothing is imported before a job needs it: any
package may be missing."""
