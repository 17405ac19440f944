#!/usr/bin/env python3
"""spark_map.py: lines through `infer map` as Spark's tasks: spark-submit spark_map.py MODEL IN OUT PARTS [OPTION...]

IN and OUT are what Spark can read and write (files, HDFS, S3). The model's file is on every machine. A task that dies is run
again from its beginning, and nothing of what it wrote is kept; so each id comes once. Lines need ids of their own.
"""
import os
import shlex
import sys

from pyspark import SparkContext

model, source, target, parts = sys.argv[1:5]
infer = os.environ.get('INFER', 'infer')
command = [infer, 'map', model, '--allow-failed', '--unordered'] + sys.argv[5:]
context = SparkContext.getOrCreate()
lines = context.textFile(source, int(parts)).repartition(int(parts))
lines.pipe(shlex.join(command), env=dict(os.environ), checkCode=True).saveAsTextFile(target)
context.stop()
