"""Ids, errors, limits and topic name rules, which every package uses. Imports no other package of Penstock."""
