"""Declarative pipelines: the files are Spark's own (`spark-pipeline.yml`, decorators, SQL); the runner is ours."""
