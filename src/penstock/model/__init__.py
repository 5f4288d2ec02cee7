"""The vocabulary: ids, errors, limits and topic values. Imports nothing of ours."""
