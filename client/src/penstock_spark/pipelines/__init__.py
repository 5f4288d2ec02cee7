"""Declarative pipelines: Spark's file formats (`spark-pipeline.yml`, decorators, SQL) with Penstock's runner."""
