#!/usr/bin/env python3
"""ray_map.py: lines through `infer map` as Ray Data's batches: ray_map.py MODEL IN OUT [OPTION...]

Each batch is a process of its own on one of the machines, where the model's file must be; it is mapped, so that opening it again
takes no time. A batch that fails is run again by Ray. Lines need ids of their own.
"""
import os
import subprocess
import sys

import ray

model, source, target = sys.argv[1:4]
command = [os.environ.get('INFER', 'infer'), 'map', model, '--allow-failed'] + sys.argv[4:]
CPUS = int(os.environ.get('THREADS', '8'))


def answer(batch):
    done = subprocess.run(command + ['-t', str(CPUS)], input='\n'.join(batch['text']) + '\n', stdout=subprocess.PIPE, encoding='utf-8', check=True)
    return {'text': done.stdout.split('\n')[:-1]} # splitlines would cut at U+2028, too


data = ray.data.read_text(source).map_batches(answer, batch_size=1024, num_cpus=CPUS)
os.makedirs(target, exist_ok=True)
for i, batch in enumerate(data.iter_batches(batch_size=4096)):
    with open(os.path.join(target, '%06d.jsonl' % i), 'w', encoding='utf-8') as f:
        f.writelines(line + '\n' for line in batch['text'])
