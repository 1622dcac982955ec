"""Types and schemas in Spark's words. PySpark is loaded when the first is asked for: what reads
views without Spark says here only what Spark would be told."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from headwater.algebra.schema import Schema
from headwater.algebra.values import Type

if TYPE_CHECKING:
    from pyspark.sql import types as spark


@cache
def _simple_types() -> dict[str, spark.DataType]:
    from pyspark.sql import types as spark

    return {
        "bool": spark.BooleanType(),
        "int": spark.LongType(),
        "float": spark.DoubleType(),
        "text": spark.StringType(),
        "bytes": spark.BinaryType(),
        "date": spark.DateType(),
        "timestamp": spark.TimestampNTZType(),
        "timestamp_tz": spark.TimestampType(),
        "void": spark.NullType(),
    }


def spark_type(kind: Type) -> spark.DataType:
    from pyspark.sql import types as spark

    if kind.name == "decimal":
        return spark.DecimalType(kind.precision, kind.scale)
    if kind.name == "array":
        return spark.ArrayType(spark_type(kind.element))
    if kind.name == "struct":
        fields = [spark.StructField(name, spark_type(part)) for name, part in kind.parts]
        return spark.StructType(fields)
    return _simple_types()[kind.name]


def spark_schema(schema: Schema, *more: str) -> spark.StructType:
    """The columns of a schema, and behind them `more` whole numbers."""
    from pyspark.sql import types as spark

    fields = [(column.name, spark_type(column.type)) for column in schema.columns]
    fields += [(name, spark.LongType()) for name in more]
    return spark.StructType([spark.StructField(name, kind) for name, kind in fields])
